"""The ports of the embedded stack, on loopback: by default fixed ports, or free ports."""

import random
import socket
from dataclasses import dataclass
from itertools import islice

from crawler_lifecycle.errors import NotReady

LOOPBACK = "127.0.0.1"
# below Linux's ports for clients: otherwise a client could get a chosen port before the server starts
SERVER_PORTS = range(20_000, 32_768)


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
        """Raise NotReady for the first port in use, before any part starts."""
        for option, port, part in (
            ("--temporal-port", self.temporal, "Temporal"),
            ("--ui-port", self.web_ui, "Temporal's Web UI"),
            ("--scheduler-port", self.scheduler, "the scheduler service"),
            ("--api-port", self.api, "the HTTP API and its page"),
        ):
            if _is_taken(port):
                raise NotReady(
                    f"port {port} ({part}) is in use: end the program with this port, or choose another port: "
                    f"`crawlctl up {option} PORT`, or `crawlctl up --free-ports` (in a checkout: "
                    "make up FREE_PORTS=1)"
                )


def free_ports(count: int) -> list[int]:
    """Return free ports in random order, so that two stacks starting together hardly choose the same ports."""
    candidates = random.sample(SERVER_PORTS, len(SERVER_PORTS))
    return list(islice((port for port in candidates if not _is_taken(port)), count))


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return True
    return False
