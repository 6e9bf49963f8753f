"""An HTTP server with scripted answers, which records its requests: it drops connections, is slow, or answers oddly."""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from crawler_lifecycle.http.problems import CODES


@dataclass(frozen=True)
class Answer:
    """`drop`: close the connection without an answer. `seconds`: wait before the answer."""

    status: int = 200
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: str = "application/json"
    drop: bool = False
    seconds: float = 0.0


DROP = Answer(drop=True)


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None, **more: Any) -> Answer:
    body = {"title": "Problem", "status": status, "code": CODES[status], "detail": detail, **more}
    if field := more.get("field"):
        body |= {"detail": f"{field}: {detail}", "errors": [{"field": field, "detail": detail}]}
    return Answer(status, body, headers or {}, "application/problem+json")


def events(text: str) -> Answer:
    return Answer(200, text, kind="text/event-stream")


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Scripted:
    """The answers are given in order, and the last one again and again."""

    url: str
    answers: list[Answer]
    requests: list[Request] = field(default_factory=list)


@contextmanager
def scripted(*answers: Answer) -> Iterator[Scripted]:
    script = Scripted("", list(answers))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = json.loads(content) if content else None
            headers = {name.lower(): value for name, value in self.headers.items()}
            script.requests.append(Request(self.command, self.path, headers, body))
            answer = script.answers.pop(0) if len(script.answers) > 1 else script.answers[0]
            time.sleep(answer.seconds)
            if answer.drop:
                self.close_connection = True
                return
            text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.kind)
            self.send_header("Content-Length", str(len(text.encode())))
            for name, value in answer.headers.items():
                self.send_header(name, value)
            try:
                self.end_headers()
                self.wfile.write(text.encode())
            except ConnectionError:  # the client has given up; a traceback would appear in the output of a later test
                self.close_connection = True

        do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 (the base class calls them)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Write nothing into the output of tests."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        script.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
