"""On which ports does the stack answer?"""

import socket
from contextlib import ExitStack
from dataclasses import dataclass

from crawler_lifecycle.errors import NotReady

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Ports:
    temporal: int = 7233
    web_ui: int = 8233
    scheduler: int = 8310
    api: int = 3210

    @classmethod
    def free(cls) -> "Ports":
        return cls(*free_ports(4))

    def refuse_taken(self) -> None:
        """One line for the first port that something else has, before anything is started."""
        for option, port, what in (
            ("--temporal-port", self.temporal, "Temporal"),
            ("--ui-port", self.web_ui, "Temporal's Web UI"),
            ("--scheduler-port", self.scheduler, "the scheduler service"),
            ("--api-port", self.api, "the HTTP API and its page"),
        ):
            if _is_taken(port):
                raise NotReady(
                    f"port {port} ({what}) is in use: end what uses it, choose another with {option}, "
                    "or let free ones be found with --free-ports"
                )


def free_ports(count: int) -> list[int]:
    """Held all at once, so that they differ."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [each.getsockname()[1] for each in sockets]


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return True
    return False
