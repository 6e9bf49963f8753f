import base64
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from crawler_lifecycle.clusters.adapters.scheduler_client import SchedulerClient
from crawler_lifecycle.delivery.pushers.pusher_channels import PusherChannels
from crawler_lifecycle.delivery.pushers.webhooks import Webhook, endpoints
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.settings.outside import NoticeSettings
from tests.kit.outside.messages import a_notice

pytestmark = pytest.mark.regression(
    "A time-out for each read never ended while bytes came one by one: who dripped its headers held a thread for ever"
)

TIMEOUT = 2.0
DRIPS = 300  # 30 s: an answer in the end, for who waits that long


class Dripping:
    """Each answer comes a byte at a time, in its headers."""

    def __init__(self) -> None:
        self.left = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _serve(self) -> None:
        connection, _ = self._listening.accept()
        with connection:
            try:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Long: ")
                for _ in range(DRIPS):
                    connection.sendall(b"x")
                    time.sleep(0.1)
                connection.sendall(b"\r\n\r\n{}")
            except OSError:
                self.left.set()


@pytest.fixture
def dripping() -> Iterator[Dripping]:
    dripping = Dripping()
    yield dripping
    dripping.close()


def by_webhook(url: str) -> None:
    secret = f"whsec_{base64.b64encode(b'1' * 32).decode()}"
    (endpoint,) = endpoints(f"{url} {secret}")
    Webhook(endpoint, TIMEOUT).send(a_notice("n-1"))


def by_channels(url: str) -> None:
    app = {"pusher_app_id": "1", "pusher_key": "key", "pusher_secret": "secret"}
    settings = NoticeSettings.model_validate({"pusher_url": url, "timeout_seconds": TIMEOUT, **app})
    PusherChannels("1", settings).send(a_notice("n-1"))


def by_scheduler_client(url: str) -> None:
    SchedulerClient(url, "t" * 40, TIMEOUT).check()


@pytest.mark.parametrize("ask", [by_webhook, by_channels, by_scheduler_client])
@pytest.mark.long
def test_who_drips_is_left(dripping: Dripping, ask: Callable[[str], None]) -> None:
    with pytest.raises(TemporaryError, match="no answer in 2 s"):
        ask(dripping.url)
    assert dripping.left.wait(60)  # the connection is closed, not only forgotten


def test_connections_are_kept() -> None:
    seen = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            seen.append(self.client_address)
            self.send_response(200)
            self.send_header("Content-Length", "15")
            self.end_headers()
            self.wfile.write(b'{"crawlers":[]}')

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        client = SchedulerClient(f"http://127.0.0.1:{server.server_port}", "t" * 40, timeout=60)
        assert [client.crawler_names() for _ in range(3)] == [[], [], []]
        client.close()
        server.shutdown()
    assert len(seen) == 3
    assert len(set(seen)) == 1
