"""HTTP client with a time limit for the whole request, however slowly the server answers.

httpx limits single reads and writes, so a server that sends byte after byte would hold a thread forever. asyncio can
limit the whole request: name lookup, connection, request and answer. All requests in the process therefore run in an
event loop with its own thread.
"""

import asyncio
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import httpx

from crawler_lifecycle.errors import NotReady

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")  # hosts reached without a proxy
MOST_CONNECTIONS = 100  # also the number of threads for name lookups
# Servers close idle connections, many after five seconds. A request in the same moment gets no answer.
IDLE_SECONDS = 2.0  # a connection idle for longer is closed, not used again


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    status: int
    headers: httpx.Headers
    body: bytes


class HttpClient:
    """Client for many threads that keeps its connections. Proxies come from the environment.

    `tls` is the context with the trusted authorities; None: the authorities that httpx trusts.
    """

    def __init__(self, seconds: float, tls: ssl.SSLContext | None = None) -> None:
        self._seconds = seconds
        self._loop = _event_loop()
        try:
            self._client = httpx.AsyncClient(
                timeout=None,  # noqa: S113 (the time limit is in _request)
                verify=tls if tls is not None else True,
                limits=httpx.Limits(max_connections=MOST_CONNECTIONS, keepalive_expiry=IDLE_SECONDS),
                mounts={f"all://{host}": None for host in LOOPBACK},
            )
        except (httpx.InvalidURL, ValueError, ImportError) as error:
            raise NotReady(f"the proxy of the environment (HTTP_PROXY and such) cannot be used: {error}") from error

    def request(self, method: str, url: str, *, largest_answer: int, **content: Any) -> HttpAnswer:
        """Send the request and return the answer. Raise httpx.HTTPError for no answer in time, or an answer too large.

        `largest_answer` limits the decoded body in bytes; with 0 the body is not read and stays empty.
        """
        request = self._request(method, url, largest_answer, content)
        return asyncio.run_coroutine_threadsafe(request, self._loop).result()

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._client.aclose(), self._loop).result()

    async def _request(self, method: str, url: str, largest: int, content: dict[str, Any]) -> HttpAnswer:
        try:
            async with asyncio.timeout(self._seconds), self._client.stream(method, url, **content) as response:
                body = await _body(response, largest) if largest else b""
                return HttpAnswer(response.status_code, response.headers, body)
        except TimeoutError as error:
            raise httpx.TimeoutException(f"no answer in {self._seconds:g} s") from error


async def _body(response: httpx.Response, largest: int) -> bytes:
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > largest:
            raise httpx.HTTPError(f"its answer is larger than {largest} bytes")
    return bytes(body)


@cache
def _event_loop() -> asyncio.AbstractEventLoop:
    """Return the process's event loop for requests. The first call starts the loop in its own thread."""
    loop = asyncio.new_event_loop()
    # a resolver that hangs for a host must not delay lookups for other hosts
    loop.set_default_executor(ThreadPoolExecutor(MOST_CONNECTIONS, thread_name_prefix="lookup"))
    threading.Thread(target=loop.run_forever, name="http", daemon=True).start()
    return loop
