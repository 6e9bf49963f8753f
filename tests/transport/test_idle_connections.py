from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
import uvicorn

from crawler_lifecycle.processes.scheduler import KEEP_ALIVE_SECONDS
from crawler_lifecycle.transport import http_client
from crawler_lifecycle.transport.http_client import IDLE_SECONDS, HttpClient

pytestmark = pytest.mark.regression(
    "A request on an idle connection got no answer if the server closed the connection in that moment"
)


class Server(ThreadingHTTPServer):
    connections = 0

    def process_request(self, *arguments: object) -> None:
        self.connections += 1
        super().process_request(*arguments)  # type: ignore[arg-type]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@contextmanager
def serving() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def connections_of_three_requests() -> int:
    with serving() as server, closing(HttpClient(60)) as client:
        for _ in range(3):
            client.request("GET", f"http://127.0.0.1:{server.server_port}/", largest_answer=100)
        return server.connections


def test_a_connection_is_used_again() -> None:
    assert connections_of_three_requests() == 1


def test_a_connection_that_was_idle_for_too_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "IDLE_SECONDS", 0.0)
    assert connections_of_three_requests() == 3


def test_servers_keep_connections_for_longer_than_the_client() -> None:
    a_companys_service = uvicorn.Config("app").timeout_keep_alive
    assert 2 * IDLE_SECONDS < a_companys_service < KEEP_ALIVE_SECONDS
