"""What goes wrong on the way to a server? A TCP proxy that drops connections, loses answers, holds still."""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

SIZE = 1 << 16


class Proxy:
    def __init__(self, upstream: str) -> None:
        self.lead_to(upstream)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.dropped = 0
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._flowing = threading.Event()
        self._flowing.set()
        self._door_closed = False
        self._drop_in: int | None = None  # bytes
        self._close_then = False
        self._lost: re.Pattern[bytes] | None = None
        self._said: bytes | None = None
        self._ended = False

    # Faults

    def lead_to(self, upstream: str) -> None:
        """New connections lead to this server, as after a change of a name's address; the others stay."""
        address = urlsplit(upstream)
        self._upstream = (address.hostname, address.port)

    def drop_after(self, sent: int, *, for_good: bool = False) -> None:
        """When this many more bytes have been sent, their connection ends; `for_good`: and every other one."""
        with self._lock:
            self._drop_in, self._close_then = sent, for_good

    def lose_answer(self, request: bytes) -> None:
        """The next request with this in it is carried out; who asked sees the connection end."""
        with self._lock:
            self._lost = re.compile(request)

    def close_door(self) -> None:
        """Every connection ends, and no other is taken."""
        self._door_closed = True
        self._cut()

    def open_door(self) -> None:
        self._door_closed = False

    def answer(self, status: bytes | None) -> None:
        """What is asked from now on is answered with this, by nobody that knows anything; None: by the server."""
        self._said = status
        self._cut()

    def hold(self) -> None:
        """Connections stay open, and nothing goes through."""
        self._flowing.clear()

    def let_go(self) -> None:
        self._flowing.set()

    # Work

    def serve(self) -> None:
        while not self._ended:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._door_closed:
                client.close()
                continue
            if self._said is not None:
                threading.Thread(target=self._put_off, args=(client, self._said), name="put off", daemon=True).start()
                continue
            threading.Thread(target=self._join, args=(client,), name="proxied", daemon=True).start()

    def end(self) -> None:
        self._ended = True
        self._flowing.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._cut()

    def _put_off(self, client: socket.socket, status: bytes) -> None:
        with client, suppress(OSError):
            client.settimeout(5)
            if client.recv(SIZE):
                client.sendall(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    def _join(self, client: socket.socket) -> None:
        with client, suppress(ConnectionRefusedError), socket.create_connection(self._upstream) as server:
            lost = threading.Event()
            with self._lock:
                self._open |= {client, server}
            back = threading.Thread(target=self._answers, args=(server, client, lost), name="answers", daemon=True)
            back.start()
            with suppress(OSError):
                self._requests(client, server, lost)
            _shut(client, server)
            back.join()
            with self._lock:
                self._open -= {client, server}

    def _requests(self, client: socket.socket, server: socket.socket, lost: threading.Event) -> None:
        while data := client.recv(SIZE):
            self._flowing.wait()
            if self._drops(len(data)):
                return
            if self._loses(data):
                lost.set()
            server.sendall(data)

    def _answers(self, server: socket.socket, client: socket.socket, lost: threading.Event) -> None:
        with suppress(OSError):
            while data := server.recv(SIZE):
                self._flowing.wait()
                if lost.is_set() and b" 100 Continue" not in data[:30]:
                    self.dropped += 1
                    break
                client.sendall(data)
        _shut(client, server)

    def _drops(self, sent: int) -> bool:
        with self._lock:
            if self._drop_in is None:
                return False
            self._drop_in -= sent
            if self._drop_in > 0:
                return False
            self._drop_in = None
            self.dropped += 1
            self._door_closed = self._close_then
        if self._door_closed:
            self._cut()
        return True

    def _loses(self, data: bytes) -> bool:
        with self._lock:
            if self._lost is None or not self._lost.search(data):
                return False
            self._lost = None
            return True

    def _cut(self) -> None:
        with self._lock:
            open_now = list(self._open)
        _shut(*open_now)


def _shut(*sockets: socket.socket) -> None:
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxy_to(upstream: str) -> Iterator[Proxy]:
    proxy = Proxy(upstream)
    thread = threading.Thread(target=proxy.serve, name="proxy", daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.end()
        thread.join()
