"""Ports of the embedded stack."""

import random
import socket
from dataclasses import dataclass
from itertools import islice

from crawler_lifecycle.errors import NotReady

LOOPBACK = "127.0.0.1"
# Below the range for client connections: a client could get a chosen port before the server starts.
SERVERS = range(20_000, 32_768)


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
        for option, port, what in (
            ("--temporal-port", self.temporal, "Temporal"),
            ("--ui-port", self.web_ui, "Temporal's Web UI"),
            ("--scheduler-port", self.scheduler, "the scheduler service"),
            ("--api-port", self.api, "the HTTP API and its page"),
        ):
            if _is_taken(port):
                raise NotReady(
                    f"port {port} ({what}) is in use: end what uses it, or start with another: "
                    f"`crawlctl up {option} PORT`, or `crawlctl up --free-ports` (make has no options; "
                    "crawlctl is in .venv/bin of a checkout)"
                )


def free_ports(count: int) -> list[int]:
    free = (port for port in random.sample(SERVERS, len(SERVERS)) if not _is_taken(port))
    return list(islice(free, count))


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return True
    return False
