"""Make, start and end a process that serves HTTP: the API or the scheduler service.

The errors of both applications have the type application/problem+json, and their OpenAPI documents say so.

uvicorn itself limits only the pause between two requests. A request head or body without an end, or an answer never
read by the client, would hold a connection forever, and for a live stream also one of the limited slots. So
`TimeLimitedProtocol` limits every wait for a client.
"""

import asyncio
import fcntl
import ipaddress
import json
import signal
import socket
import sys
import termios
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from http import HTTPStatus
from typing import Any, NoReturn
from urllib.parse import urlsplit

import h11
import uvicorn
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from uvicorn.protocols.http.h11_impl import H11Protocol

from crawler_lifecycle import extras
from crawler_lifecycle.base.base import Message
from crawler_lifecycle.base.hiding import hide_process
from crawler_lifecycle.errors import LifecycleError, NotReady
from crawler_lifecycle.http.problems import MEDIA_TYPE, answer_with_problems
from crawler_lifecycle.metrics import show_build

CLIENT_HAS_TO_SEND = (h11.IDLE, h11.SEND_BODY)  # the client has to send the head, or the body
# responses of every endpoint with a body, unless the endpoint describes the status itself
BODY_REFUSALS = {
    "400": {"description": "The body is not JSON in UTF-8."},
    "413": {"description": "The body is too large."},
    "415": {"description": "The body is not `application/json`, or is packed."},
}
Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]
DRAIN_SECONDS = 20  # time for open requests when the process ends


class TimeLimitedProtocol(H11Protocol):
    """Abort a connection if its client sends no head, sends no body, or does not read for `client_seconds`.

    The limit counts for the whole head and the whole body, so that slow single bytes do not prolong the time. Reading a
    long answer may take any time, provided that the client reads a part in each period.
    """

    client_seconds = 30.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        # asyncio leaves this out for a socket of `socket.create_server`: on a kept connection, a body would wait up to
        # 40 ms until the client's kernel confirms the head
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # without this limit, `pause_writing` would not be called for a short answer that the client does not read
        transport.set_write_buffer_limits(high=0)
        self.app_state = {**self.app_state, "abort": transport.abort}  # for a stream whose token is revoked
        # the client's state and the request for which `_limit_sending` was called last
        self._sending_state: tuple[object, object] | None = None
        self._send_timer: asyncio.TimerHandle | None = None
        self._read_timer: asyncio.TimerHandle | None = None
        self._limit_sending()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._limit_sending()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._limit_sending()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._limit_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        _cancel(self._read_timer)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        _cancel(self._send_timer)
        _cancel(self._read_timer)

    def _limit_sending(self) -> None:
        """Start the time anew for every head and every body, and end the time when the client has sent everything.

        A piece of a head or body changes neither state nor request, and leaves the time as it is.
        """
        sending_state = (self.conn.their_state, self.cycle)
        if sending_state != self._sending_state:
            _cancel(self._send_timer)
            self._sending_state = sending_state
            if self.conn.their_state in CLIENT_HAS_TO_SEND:
                self._send_timer = self.loop.call_later(self.client_seconds, self.transport.abort)

    def _limit_reading(self) -> None:
        """Start the time limit for the client's next read."""
        self._read_timer = self.loop.call_later(self.client_seconds, self._abort_without_progress, self._count_unread())

    def _abort_without_progress(self, unread_before: int) -> None:
        if self._count_unread() < unread_before:
            self._limit_reading()
        else:
            self.transport.abort()

    def _count_unread(self) -> int:
        """Return how many bytes the client has still to read, in our buffer and the kernel's.

        A slow client may empty the kernel's buffer for long, while our buffer stays the same.
        """
        queued = bytearray(4)
        with suppress(OSError):  # without the system call, only our buffer counts
            fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, queued)
        return self.transport.get_write_buffer_size() + int.from_bytes(queued, sys.byteorder)


def server_config(app: FastAPI, **options: Any) -> uvicorn.Config:
    """Return the configuration for uvicorn: this protocol, and no websockets, since upgrades would bypass limits."""
    class_attributes = {"client_seconds": app.state.api.settings.client_seconds}
    protocol = type("Protocol", (TimeLimitedProtocol,), class_attributes)  # uvicorn takes a class, not an object
    return uvicorn.Config(app, http=protocol, ws="none", log_config=None, access_log=False, **options)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


class Health(Message):
    status: str


def new_app(title: str, description: str, lifespan: Lifespan) -> FastAPI:
    """Return an application without routes, whose errors are problems."""
    app = FastAPI(
        title=title,
        version="1.0.0",
        description=description,
        docs_url=None,  # the documentation pages would load scripts from foreign servers
        redoc_url=None,
        servers=[{"url": "/", "description": "the address from which this document was read"}],
        lifespan=lifespan,
        redirect_slashes=False,  # a redirect would be absolute, with the client's own Host header as its address
        generate_unique_id_function=lambda route: route.name,
        telemetry={"auto_configure": False},  # variables in the environment must not start an export of telemetry
    )
    answer_with_problems(app)
    app.openapi = partial(_openapi_document, app)  # type: ignore[method-assign]  # FastAPI's own way of changing it
    return app


def _openapi_document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, with the errors as this application answers them.

    FastAPI documents errors as application/json, and an endpoint's mistakes in a shape of its own.
    """
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes, servers=app.servers
    )
    for path in document["paths"].values():
        for operation in path.values():
            operation["summary"] = operation["operationId"].replace("_", " ").capitalize()
            responses = operation["responses"]
            if "requestBody" in operation:
                responses |= {status: responses.get(status, refusal) for status, refusal in BODY_REFUSALS.items()}
            for status, response in responses.items():
                if int(status) >= HTTPStatus.BAD_REQUEST:
                    response["content"] = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for name in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(name, None)
    return document


def run(name: str, serve: Callable[[], None], document: Callable[[], Mapping[str, object]]) -> NoReturn:
    """Serve, or print the OpenAPI document if the process has the argument `--openapi`. Then end the process."""
    if sys.argv[1:] == ["--openapi"]:
        sys.stdout.write(json.dumps(document(), indent=2) + "\n")
        sys.exit(0)
    hide_process()
    show_build()
    try:
        with extras.named():
            serve()
    except LifecycleError as error:
        sys.stderr.write(f"{name}: {error.message}\n")
        sys.exit(1)
    sys.exit(0)


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
