"""Where do the logs of simulated pods come from? A server in the place of every node's kubelet; tests say what is in
them. (The API server asks it and hands its answer on, with the bounds that the client asked for.)"""

import ssl
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from tests.kubernetes.certificates import Certificates

LOOK_SECONDS = 0.2
MORE = b"and again\n" * 1000


class Kubelet:
    """The output of a job's pod, by the job's name."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._outputs: dict[str, bytes] = defaultdict(bytes)
        self._over: set[str] = set()
        self._refused: dict[str, int] = {}
        self._endless: set[str] = set()
        self._closed = False
        self.has_pod: Callable[[str, str], bool] = lambda _namespace, _pod: True

    def print(self, job: str, text: str | bytes) -> None:
        with self._changed:
            self._outputs[job] += text.encode() if isinstance(text, str) else text
            self._changed.notify_all()

    def finish(self, job: str) -> None:
        """Who follows this log comes to its end."""
        with self._changed:
            self._over.add(job)
            self._changed.notify_all()

    def refuse(self, job: str, status: int) -> None:
        """Whoever asks for this log gets that status instead."""
        self._refused[job] = status

    def never_end(self, job: str) -> None:
        """This log goes on and on, whatever part of it was asked for."""
        self._endless.add(job)

    def answer(self, job: str) -> None:
        """As it should, again."""
        self._refused.pop(job, None)
        self._endless.discard(job)

    def refusal(self, job: str) -> int | None:
        return self._refused.get(job)

    def is_endless(self, job: str) -> bool:
        return job in self._endless and not self._closed

    def more(self, job: str) -> Iterator[bytes]:
        """For as long as it never ends."""
        yield self.output(job)
        while self.is_endless(job):
            yield MORE
            time.sleep(LOOK_SECONDS)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def output(self, job: str) -> bytes:
        return self._outputs.get(job, b"")

    def pieces(self, job: str, is_there: Callable[[], bool]) -> Iterator[bytes]:
        """The output as it comes, up to its end, or that of the pod: simulated ones do not tell it."""
        sent, has_ended = 0, False
        while True:
            piece, ended = self._next(job, sent)
            if piece:
                yield piece
                sent += len(piece)
            elif has_ended:
                return
            else:  # what it has printed until then is its output, too
                has_ended = ended or not is_there()

    def _next(self, job: str, sent: int) -> tuple[bytes, bool]:
        with self._changed:
            self._changed.wait_for(lambda: self.output(job)[sent:] or self._has_ended(job), LOOK_SECONDS)
            return self.output(job)[sent:], self._has_ended(job)

    def _has_ended(self, job: str) -> bool:
        return job in self._over or self._closed


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # a connection for each of twenty thousand logs would cost more than the logs
    disable_nagle_algorithm = True  # head and body are two writes: the second would wait for the answer to the first
    kubelet: Kubelet

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(address.query).items()}
        match address.path.split("/"):
            case ["", "containerLogs", namespace, pod, _]:
                self._logs(namespace, pod, query)
            case _:
                self.send_error(404)

    def _logs(self, namespace: str, pod: str, query: dict[str, str]) -> None:
        job = pod.rpartition("-")[0]
        if status := self.kubelet.refusal(job):
            self.send_error(status)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        with suppress(ConnectionError):  # whoever followed has left
            if self.kubelet.is_endless(job):
                self._stream(self.kubelet.more(job))
            elif query.get("follow") == "true":
                self._stream(self.kubelet.pieces(job, lambda: self.kubelet.has_pod(namespace, pod)))
            else:
                self._send(_bounded(self.kubelet.output(job), query))

    def _send(self, output: bytes) -> None:
        self.send_header("Content-Length", str(len(output)))
        self.end_headers()
        self.wfile.write(output)

    def _stream(self, pieces: Iterator[bytes]) -> None:
        """It ends with its connection."""
        self.send_header("Connection", "close")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(piece)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def _bounded(output: bytes, query: dict[str, str]) -> bytes:
    if "tailLines" in query:
        output = b"".join(output.splitlines(keepends=True)[-int(query["tailLines"]) :])
    return output[: int(query["limitBytes"])] if "limitBytes" in query else output


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024  # the last lines of many jobs are asked for at once


@contextmanager
def serving(port: int, certificates: Certificates) -> Iterator[Kubelet]:
    kubelet = Kubelet()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server, certificates.server_key)
    handler = type("Handler", (_Handler,), {"kubelet": kubelet})
    with _Server(("127.0.0.1", port), handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, name="kubelet", daemon=True)
        thread.start()
        try:
            yield kubelet
        finally:
            kubelet.close()
            server.shutdown()
            thread.join()
