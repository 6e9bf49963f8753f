"""Requests of ours go where those of httpx would, errors are its errors; that they end in time is in regressions."""

import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from typing import Any

import httpx
import pytest

from crawler_lifecycle.adapters.http_deadline import DeadlineTransport
from crawler_lifecycle.errors import NotReady

NOBODY = "http://127.0.0.1:1"


class Server(ThreadingHTTPServer):
    """Answers everything; what it was asked for."""

    daemon_threads = True

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None]] = []
        super().__init__(("127.0.0.1", 0), _Visit)
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Visit(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.path, self.headers["Proxy-Authorization"]))
        self.send_response(201)
        self.send_header("X-Two", "one")
        self.send_header("X-Two", "other")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return monkeypatch


def post(url: str, seconds: float = 60) -> httpx.Response:
    with httpx.Client(transport=DeadlineTransport(seconds), timeout=seconds) as client:
        return client.post(url, content="é".encode())


def test_what_is_asked_and_answered(environment: pytest.MonkeyPatch, server: Server) -> None:
    answer = post(f"{server.url}/a%20b?c=d%26e")
    assert (answer.status_code, answer.text, answer.headers.get_list("x-two")) == (201, "é", ["one", "other"])
    assert server.asked == [("/a%20b?c=d%26e", None)]


@pytest.mark.parametrize("variable", ["http_proxy", "all_proxy", "HTTP_PROXY"])
def test_the_proxy_of_the_environment(environment: pytest.MonkeyPatch, server: Server, variable: str) -> None:
    environment.setenv(variable, f"ann:secret@127.0.0.1:{server.server_port}")
    assert post("http://nowhere.invalid/hook").status_code == 201
    assert server.asked == [("http://nowhere.invalid/hook", "Basic YW5uOnNlY3JldA==")]
    environment.setenv("no_proxy", "here.invalid,.else.invalid")
    with pytest.raises(httpx.ConnectError):
        post("http://some.else.invalid/hook")
    assert len(server.asked) == 1


def test_this_machine_is_asked_directly(environment: pytest.MonkeyPatch, server: Server) -> None:
    environment.setenv("http_proxy", NOBODY)
    assert post(server.url).status_code == 201


def test_errors_are_those_of_httpx(environment: pytest.MonkeyPatch) -> None:
    with pytest.raises(httpx.ConnectError):
        post(NOBODY)
    with pytest.raises(httpx.UnsupportedProtocol):
        post("gopher://127.0.0.1/")


def test_a_proxy_that_is_none(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("https_proxy", "gopher://127.0.0.1:1")
    with pytest.raises(NotReady, match="proxy of the environment"):
        DeadlineTransport(60)


@pytest.mark.skipif(find_spec("socksio") is not None, reason="it is installed")
def test_a_proxy_that_cannot_be_used(environment: pytest.MonkeyPatch) -> None:
    """It was taken, and every request failed by an import."""
    environment.setenv("all_proxy", "socks5h://127.0.0.1:1")
    with pytest.raises(NotReady, match="socksio is not installed"):
        DeadlineTransport(60)


def test_the_addresses_of_a_host_share_its_time(environment: pytest.MonkeyPatch, server: Server) -> None:
    """Each of them had all of it."""
    given: list[tuple[str, float]] = []
    connect = socket.create_connection

    def slow(address: tuple[str, int], timeout: float, **others: Any) -> socket.socket:
        given.append((address[0], timeout))
        if address[0] != "127.0.0.1":
            time.sleep(min(timeout, 0.05))
            raise TimeoutError
        return connect(address, timeout, **others)

    def found(addresses: list[str]) -> None:
        answer = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, server.server_port)) for each in addresses]
        environment.setattr(socket, "getaddrinfo", lambda *_, **__: answer)

    environment.setattr(socket, "create_connection", slow)
    found(["192.0.2.1", "192.0.2.2", "127.0.0.1"])
    assert post("http://several.invalid/hook").status_code == 201
    assert [address for address, _ in given] == ["192.0.2.1", "192.0.2.2", "127.0.0.1"]
    assert given[0][1] > given[1][1] > given[2][1]
    given.clear()
    found([f"192.0.2.{number}" for number in range(200)])
    with pytest.raises(httpx.ConnectTimeout):
        post("http://several.invalid/hook", seconds=0.2)
    assert len(given) < 200
