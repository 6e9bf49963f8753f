"""What goes wrong between a client and the API server? A proxy that can drop an answer, be late, fall silent, or answer
by itself.

It ends TLS on both sides, so it knows a request when it sees one. Clients reach it by `url`, with the bed's authority.
"""

import asyncio
import math
import ssl
import threading
import time
from asyncio import StreamReader, StreamWriter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from tests.kubernetes.bed import Bed
from tests.kubernetes.replies import Reply

SIZE = 1 << 16
LOOPBACK = "127.0.0.1"
START_SECONDS = 30


class Proxy:
    """Made by `proxy_to`. It works in a thread of its own; a test tells it what to do from any other."""

    def __init__(self, bed: Bed) -> None:
        self.upstream = bed.plane.ports["kube-apiserver"]
        self.trust = bed.trust
        self.served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.served.load_cert_chain(bed.plane.certificates.server, bed.plane.certificates.server_key)
        self.url = ""
        self.delay = 0.0
        self.dropped = 0
        self._silent = False
        self._lock = threading.Lock()
        self._doomed: list[tuple[str, str]] = []
        self._replies: list[Reply] = []
        self._given: list[float] = []
        self._most = math.inf
        self._pairs: set[_Pair] = set()
        self._started = threading.Event()

    # Faults

    def drop_answer(self, method: str, path: str) -> None:
        """The next request with this method and this in its path is carried out; who asked sees its connection end."""
        with self._lock:
            self._doomed.append((method, path))

    def fall_silent(self) -> None:
        """Every connection, and every new one, stays open; nothing comes or goes. For those, for good."""
        self._silent = True

    def speak_again(self) -> None:
        """New connections work; those that met the silence never do."""
        self._silent = False

    def cut(self) -> None:
        """Every connection ends now."""
        self._loop.call_soon_threadsafe(self._cut)

    @contextmanager
    def answering(self, *replies: Reply, times: float = math.inf) -> Iterator[list[float]]:
        """Requests that one of them fits (the first counts) never arrive: they get it, and when is in the list.

        Streams that were open before end, as where the API server is replaced."""
        with self._lock:
            self._replies, self._given, self._most = list(replies), [], times
        self.cut()
        try:
            yield self._given
        finally:
            with self._lock:
                self._replies = []

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._closing.set)

    # Work

    async def run(self) -> None:
        self._loop, self._closing = asyncio.get_running_loop(), asyncio.Event()
        async with await asyncio.start_server(self._serve, LOOPBACK, 0, ssl=self.served) as server:
            self.url = f"https://{LOOPBACK}:{server.sockets[0].getsockname()[1]}"
            self._started.set()
            await self._closing.wait()
            self._cut()

    def until_started(self) -> None:
        assert self._started.wait(START_SECONDS), "the proxy does not start"

    def _cut(self) -> None:
        for pair in self._pairs:
            pair.close()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        with suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection(
                LOOPBACK, self.upstream, ssl=self.trust, server_hostname=LOOPBACK
            )
            pair = _Pair(writer, far_writer)
            self._pairs.add(pair)
            both = asyncio.gather(self._carry_requests(reader, pair), self._carry_answers(far_reader, pair))
            try:
                await both
            finally:
                both.cancel()
                self._pairs.discard(pair)
        writer.close()

    async def _carry_requests(self, reader: StreamReader, pair: "_Pair") -> None:
        with pair.closed_after():
            while data := await reader.read(SIZE):
                if reply := self._reply_to(data):
                    pair.answered = True  # who asked closes the connection
                    pair.client.write(reply.encoded())
                if pair.answered:
                    continue
                if self._is_doomed(data):
                    pair.doomed = True
                if self._goes_on(pair):
                    pair.server.write(data)
                    await pair.server.drain()

    async def _carry_answers(self, reader: StreamReader, pair: "_Pair") -> None:
        with pair.closed_after():
            while data := await reader.read(SIZE):
                if pair.doomed:
                    self.dropped += 1
                    return
                await asyncio.sleep(self.delay)
                if self._goes_on(pair):
                    pair.client.write(data)
                    await pair.client.drain()

    def _goes_on(self, pair: "_Pair") -> bool:
        pair.mute = pair.mute or self._silent
        return not pair.mute

    def _is_doomed(self, data: bytes) -> bool:
        line = _line(data)
        with self._lock:
            for method, path in self._doomed:
                if line.startswith(f"{method} ") and path in line:
                    self._doomed.remove((method, path))
                    return True
        return False

    def _reply_to(self, data: bytes) -> Reply | None:
        line = _line(data)
        with self._lock:
            reply = next((each for each in self._replies if line and each.fits(line)), None)
            if reply is None or len(self._given) >= self._most:
                return None
            self._given.append(time.monotonic())
            return reply


def _line(data: bytes) -> str:
    """Clients send the head of a request in one piece, at the start of it."""
    line = data.split(b"\r\n", 1)[0].decode("latin-1")
    return line if line.endswith(" HTTP/1.1") else ""


@dataclass(eq=False)
class _Pair:
    """A client's connection and ours for it."""

    client: StreamWriter
    server: StreamWriter
    doomed: bool = False
    answered: bool = False
    mute: bool = False

    @contextmanager
    def closed_after(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.close()

    def close(self) -> None:
        self.client.close()
        self.server.close()


@contextmanager
def proxy_to(bed: Bed) -> Iterator[Proxy]:
    proxy = Proxy(bed)
    thread = threading.Thread(target=lambda: asyncio.run(proxy.run()), name="proxy", daemon=True)
    thread.start()
    proxy.until_started()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join()
