"""How does a request over HTTP end in time, however slowly the other side answers?

The time-outs of httpx are for each read and write. Here none of them gets more than what is left for the whole request.
"""

import math
import ssl
import time
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any

import httpcore
import httpx

PIECE = 4096  # a write of httpcore goes on until all is written, with its time-out for each part
_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)  # of the request this thread makes


def end_requests_after(client: httpx.Client, seconds: float) -> None:
    """All of a request and its answer; connections are kept as before. Each request stays in the thread it began in."""

    def begin(_: httpx.Request) -> None:
        _deadline.set(time.monotonic() + seconds)

    client.event_hooks = {"request": [begin]}
    for transport in (client._transport, *client._mounts.values()):
        if isinstance(transport, httpx.HTTPTransport):  # httpx has no option for it, httpcore has
            transport._pool._network_backend = _Backend()


class _Backend(httpcore.SyncBackend):
    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(super().connect_tcp(host, port, left, local_address, socket_options))


class _Stream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), PIECE):
            self._stream.write(buffer[start : start + PIECE], _left(timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, left))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _left(timeout: float | None, late: type[httpcore.TimeoutException]) -> float:
    left = _deadline.get() - time.monotonic()
    if left <= 0:
        raise late("the time for the whole request is over")
    return left if timeout is None else min(left, timeout)
