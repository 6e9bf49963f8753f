"""What goes wrong between a client and the API server? A proxy that can drop an answer, be late, or fall silent.

It ends TLS on both sides, so it knows a request when it sees one. Clients reach it by `url`, with the bed's authority.
"""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tests.kubernetes.bed import Bed

SIZE = 1 << 16


class Proxy:
    def __init__(self, bed: Bed) -> None:
        self.upstream = bed.plane.ports["kube-apiserver"]
        self.trust = bed.trust
        self.served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.served.load_cert_chain(bed.plane.certificates.server, bed.plane.certificates.server_key)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self.listener.getsockname()[1]}"
        self.lock = threading.Lock()
        self.pairs: set[_Pair] = set()
        self.doomed: list[tuple[str, str]] = []
        self.dropped = 0
        self.delay = 0.0
        self.silent = threading.Event()
        self.closing = threading.Event()

    # Faults

    def drop_answer(self, method: str, path: str) -> None:
        """The next request with this method and this in its path is carried out; who asked sees its connection end."""
        with self.lock:
            self.doomed.append((method, path))

    def fall_silent(self) -> None:
        """Every connection, and every new one, stays open; nothing comes or goes. For those, for good."""
        self.silent.set()

    def speak_again(self) -> None:
        """New connections work; those that met the silence never do."""
        self.silent.clear()

    def cut(self) -> None:
        """Every connection ends now."""
        with self.lock:
            pairs = list(self.pairs)
        for pair in pairs:
            pair.close()

    # Work

    def accept(self) -> None:
        while not self.closing.is_set():
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), name="proxied", daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        with plain:
            if self.silent.is_set():
                self.closing.wait()
                return
            with suppress(OSError), self._joined(plain) as pair:
                back = threading.Thread(target=self._carry_answers, args=(pair,), name="answers", daemon=True)
                back.start()
                self._carry_requests(pair)
                back.join()

    @contextmanager
    def _joined(self, plain: socket.socket) -> Iterator["_Pair"]:
        with (
            self.served.wrap_socket(plain, server_side=True) as client,
            socket.create_connection(("127.0.0.1", self.upstream)) as far,
            self.trust.wrap_socket(far, server_hostname="127.0.0.1") as server,
        ):
            pair = _Pair(client, server)
            with self.lock:
                self.pairs.add(pair)
            try:
                yield pair
            finally:
                with self.lock:
                    self.pairs.discard(pair)
                pair.close()

    def _carry_requests(self, pair: "_Pair") -> None:
        with pair.closed_after():
            while data := pair.client.recv(SIZE):
                if self._is_doomed(data):
                    pair.doomed.set()
                if self._goes_on(pair):
                    pair.server.sendall(data)

    def _carry_answers(self, pair: "_Pair") -> None:
        with pair.closed_after():
            while data := pair.server.recv(SIZE):
                if pair.doomed.is_set():
                    self.dropped += 1
                    return
                self.closing.wait(self.delay)
                if self._goes_on(pair):
                    pair.client.sendall(data)

    def _goes_on(self, pair: "_Pair") -> bool:
        if self.silent.is_set():
            pair.mute.set()
        return not pair.mute.is_set()

    def _is_doomed(self, data: bytes) -> bool:
        """Clients send the head of a request in one piece, at the start of it."""
        line = data.split(b"\r\n", 1)[0].decode("latin-1")
        with self.lock:
            for method, path in self.doomed:
                if line.startswith(f"{method} ") and path in line:
                    self.doomed.remove((method, path))
                    return True
        return False


@dataclass(eq=False)
class _Pair:
    """A client's connection and ours for it."""

    client: ssl.SSLSocket
    server: ssl.SSLSocket
    doomed: threading.Event = field(default_factory=threading.Event)
    mute: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def closed_after(self) -> Iterator[None]:
        try:
            with suppress(OSError):
                yield
        finally:
            self.close()

    def close(self) -> None:
        for side in (self.client, self.server):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxy_to(bed: Bed) -> Iterator[Proxy]:
    proxy = Proxy(bed)
    thread = threading.Thread(target=proxy.accept, name="proxy", daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.closing.set()
        with suppress(OSError):
            proxy.listener.shutdown(socket.SHUT_RDWR)
        proxy.listener.close()
        proxy.cut()
        thread.join()
