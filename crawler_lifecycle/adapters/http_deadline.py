"""HTTP requests with one time limit for the whole request, however slowly the other side answers.

Time-outs of httpx limit single reads and writes. Here a read gets at most the rest of the request's time, and an
address of a host with several at most the rest left by earlier addresses. The lookup of a host's name is not limited:
the resolver has its own time-outs.

httpx has no option for a network backend; httpcore, its foundation, has one.
"""

import math
import socket
import ssl
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any
from urllib.request import getproxies, proxy_bypass

import httpcore
import httpx

from crawler_lifecycle.errors import NotReady

LOOPBACK = ("127.0.0.1", "localhost", "::1")  # never through a proxy
MOST_CONNECTIONS = 100
KEPT_SECONDS = 5.0  # an idle connection
PROTOCOLS = ["http/1.1"]
PIECE = 4096  # httpcore writes until all is written, with its time-out for every part
_deadline: ContextVar[float] = ContextVar(
    "deadline", default=math.inf
)  # deadline for the present request of the thread


class DeadlineTransport(httpx.BaseTransport):
    """Transport that limits a request and its answer to so many seconds and keeps connections. Proxies come from the
    environment.

    A request stays in the thread that began it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._direct = _pool(None)
        self._through = {
            scheme: _pool(url) for scheme, url in getproxies().items() if scheme in ("http", "https", "all")
        }

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        _deadline.set(time.monotonic() + self._seconds)
        asked = httpcore.Request(
            request.method,
            httpcore.URL(
                scheme=request.url.raw_scheme,
                host=request.url.raw_host,
                port=request.url.port,
                target=request.url.raw_path,
            ),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _translated():
            answer = self._pool_for(request.url).handle_request(asked)
        return httpx.Response(answer.status, headers=answer.headers, stream=_Body(answer), extensions=answer.extensions)

    def close(self) -> None:
        for pool in (self._direct, *self._through.values()):
            pool.close()

    def _pool_for(self, url: httpx.URL) -> httpcore.ConnectionPool:
        through = self._through.get(url.scheme) or self._through.get("all")
        return self._direct if through is None or url.host in LOOPBACK or proxy_bypass(url.host) else through


def _pool(proxy: str | None) -> httpcore.ConnectionPool:
    """Return the pool. httpcore gets its own TLS context: httpcore sets protocols on its context anew for every
    connection, which would corrupt connections that other threads are opening."""
    trust = httpx.create_ssl_context()
    trust.set_alpn_protocols(PROTOCOLS)
    return httpcore.ConnectionPool(
        ssl_context=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        proxy=_proxy(proxy) if proxy else None,
        max_connections=MOST_CONNECTIONS,
        keepalive_expiry=KEPT_SECONDS,
        network_backend=_Backend(trust),
    )


def _proxy(url: str) -> httpcore.Proxy:
    try:
        given = httpx.Proxy(url if "://" in url else f"http://{url}")
    except (httpx.InvalidURL, ValueError) as error:
        raise NotReady(f"the proxy of the environment (HTTP_PROXY and such) is none that we know: {error}") from error
    if given.url.scheme.startswith("socks") and find_spec("socksio") is None:
        raise NotReady(
            "the proxy of the environment (ALL_PROXY and such) speaks SOCKS, for which socksio is not installed"
        )
    return httpcore.Proxy(str(given.url), auth=given.raw_auth)


class _Body(httpx.SyncByteStream):
    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    def __iter__(self) -> Iterator[bytes]:
        with _translated():
            yield from self._answer.iter_stream()

    def close(self) -> None:
        self._answer.close()


@contextmanager
def _translated() -> Iterator[None]:
    """Raise the httpx error with the same name as the httpcore error."""
    try:
        yield
    except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol,
            httpcore.ProxyError) as error:  # fmt: skip
        raise getattr(httpx, type(error).__name__)(str(error)) from error


class _Backend(httpcore.SyncBackend):
    def __init__(self, trust: ssl.SSLContext) -> None:
        self._trust = trust

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        until = math.inf if timeout is None else time.monotonic() + timeout
        failed: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in _addresses(host, port):
            left = _left(until - time.monotonic(), httpcore.ConnectTimeout)
            try:
                return _Stream(super().connect_tcp(address, port, left, local_address, socket_options), self._trust)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
        raise failed


class _Stream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream, trust: ssl.SSLContext) -> None:
        self._stream = stream
        self._trust = trust

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), PIECE):
            self._stream.write(buffer[start : start + PIECE], _left(timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,  # noqa: ARG002 (see _pool)
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._stream.start_tls(self._trust, server_hostname, left), self._trust)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _addresses(host: str, port: int) -> list[str]:
    try:
        return [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    except OSError as error:
        raise httpcore.ConnectError(str(error)) from error


def _left(timeout: float | None, late: type[httpcore.TimeoutException]) -> float:
    left = min(_deadline.get() - time.monotonic(), math.inf if timeout is None else timeout)
    if left <= 0:
        raise late("the time for the whole request is over")
    return left
