"""Receivers of notices on loopback: an HTTP server that keeps what it gets, and answers as told."""

import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True)
class Received:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Answer:
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b"{}"


class Receiver:
    """Gives the answers of `next` in turn, then the one of `usual`; none while it is `silent`."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.next: list[Answer] = []
        self.usual = Answer()
        self.speaks = threading.Event()
        self.speaks.set()
        self._lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def take(self, request: Received) -> Answer:
        with self._lock:
            self.received.append(request)
            answer = self.next.pop(0) if self.next else self.usual
        self.speaks.wait()
        return answer


class PusherServer(Receiver):
    """Believes only what is signed with the app's secret, as the Channels protocol has it."""

    app_id, key, secret = "4711", "a-key", "a-secret"

    def take(self, request: Received) -> Answer:
        answer = super().take(request)
        return answer if self._is_signed(request) else Answer(401, body=b"wrong signature")

    def _is_signed(self, request: Received) -> bool:
        said = dict(request.query)
        signature = said.pop("auth_signature", "")
        query = "&".join(f"{name}={said[name]}" for name in sorted(said))
        text = f"{request.method}\n{request.path}\n{query}"
        fits = hmac.compare_digest(hmac.new(self.secret.encode(), text.encode(), hashlib.sha256).hexdigest(), signature)
        return (
            fits
            and request.path.startswith(f"/apps/{self.app_id}/")
            and said["auth_key"] == self.key
            and said["auth_version"] == "1.0"
            and abs(int(said["auth_timestamp"]) - time.time()) < 600
            and said["body_md5"] == hashlib.md5(request.body).hexdigest()
        )

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(each.body) for each in self.received if each.path.endswith("/events")]


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            url = urlsplit(self.path)
            length = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(length)
            if len(body) < length:  # the sender has died
                self.close_connection = True
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = receiver.take(Received(self.command, url.path, dict(parse_qsl(url.query)), headers, body))
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        def do_GET(self) -> None:
            self.do_POST()

        def do_OPTIONS(self) -> None:
            self.do_POST()

        def log_message(self, *_: object) -> None:
            pass

    return Handler


@contextmanager
def serving(receiver: Receiver) -> Iterator[None]:
    thread = threading.Thread(target=receiver.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        receiver.speaks.set()
        receiver.server.shutdown()
        receiver.server.server_close()
        thread.join()
