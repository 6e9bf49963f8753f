"""Starts and ends a process that serves HTTP: the API or the scheduler service."""

import ipaddress
import json
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import uvicorn

from crawler_lifecycle import extras
from crawler_lifecycle.base.hiding import hide_process
from crawler_lifecycle.errors import LifecycleError, NotReady
from crawler_lifecycle.metrics import show_build

DRAIN_SECONDS = 20  # time for open requests when the process ends


def run(name: str, serve: Callable[[], None], document: Callable[[], Mapping[str, object]]) -> int:
    """Serve, or print the OpenAPI document if the process has the argument `--openapi`. Return the exit status."""
    if sys.argv[1:] == ["--openapi"]:
        sys.stdout.write(json.dumps(document(), indent=2) + "\n")
        return 0
    hide_process()
    show_build()
    try:
        with extras.named():
            serve()
    except LifecycleError as error:
        sys.stderr.write(f"{name}: {error.message}\n")
        return 1
    return 0


def listen(url: str, variable: str, *, loopback_only: bool = False) -> socket.socket:
    """Return a socket on the URL's address, or raise NotReady with the name of the setting, `variable`.

    `loopback_only` is for the scheduler service of a local cluster, whose callers may run commands on this machine.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", 80 if parts.port is None else parts.port
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        if loopback_only and not ipaddress.ip_address(address[0]).is_loopback:
            raise NotReady(f"{variable}: {url}: the local cluster's service listens on loopback only")
        return socket.create_server((host, port), family=family)
    except (ValueError, OSError) as error:
        reason = getattr(error, "strerror", None) or error
        raise NotReady(f"{variable}: cannot listen on {url}: {reason}") from error


def serve_until_signal(server: uvicorn.Server, listening: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT.

    After draining, uvicorn restores the earlier handlers and raises the signal again. Python's default handlers would
    then end the process with a failure, although its end was orderly. So the server's own handler is installed as the
    earlier handler: after draining, a call to it changes nothing.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, server.handle_exit)
    server.run(sockets=[listening])
