"""The client's requests go where requests of httpx would go, and errors are those of httpx.

That a request ends in time although its answer drips is in tests/delivery/test_answers_that_drip.py.
"""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from typing import Any

import httpx
import pytest

from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.transport.http_client import HttpAnswer, HttpClient

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


def post(url: str, seconds: float = 60) -> HttpAnswer:
    with closing(HttpClient(seconds)) as client:
        return client.request("POST", url, largest_answer=100, content="é".encode())


def test_what_is_asked_and_answered(environment: pytest.MonkeyPatch, server: Server) -> None:
    answer = post(f"{server.url}/a%20b?c=d%26e")
    assert (answer.status, answer.body.decode(), answer.headers.get_list("x-two")) == (201, "é", ["one", "other"])
    assert server.asked == [("/a%20b?c=d%26e", None)]


@pytest.mark.parametrize("variable", ["http_proxy", "all_proxy", "HTTP_PROXY"])
def test_the_proxy_of_the_environment(environment: pytest.MonkeyPatch, server: Server, variable: str) -> None:
    environment.setenv(variable, f"ann:secret@127.0.0.1:{server.server_port}")
    assert post("http://nowhere.invalid/hook").status == 201
    assert server.asked == [("http://nowhere.invalid/hook", "Basic YW5uOnNlY3JldA==")]
    environment.setenv("no_proxy", "here.invalid,.else.invalid")
    with pytest.raises(httpx.ConnectError):
        post("http://some.else.invalid/hook")
    assert len(server.asked) == 1


def test_this_machine_is_asked_directly(environment: pytest.MonkeyPatch, server: Server) -> None:
    environment.setenv("http_proxy", NOBODY)
    assert post(server.url).status == 201


def test_errors_are_those_of_httpx(environment: pytest.MonkeyPatch) -> None:
    with pytest.raises(httpx.ConnectError):
        post(NOBODY)
    with pytest.raises(httpx.UnsupportedProtocol):
        post("gopher://127.0.0.1/")


def test_a_proxy_that_is_none(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("https_proxy", "gopher://127.0.0.1:1")
    with pytest.raises(NotReady, match="proxy of the environment"):
        HttpClient(60)


@pytest.mark.skipif(find_spec("socksio") is not None, reason="it is installed")
def test_a_proxy_that_cannot_be_used(environment: pytest.MonkeyPatch) -> None:
    """It was taken, and every request failed by an import."""
    environment.setenv("all_proxy", "socks5h://127.0.0.1:1")
    with pytest.raises(NotReady, match="'socksio' package is not installed"):
        HttpClient(60)


def test_an_answer_is_read_to_its_limit(environment: pytest.MonkeyPatch, server: Server) -> None:
    with closing(HttpClient(60)) as client:
        assert client.request("POST", server.url, largest_answer=0, content=b"x" * 101).body == b""
        with pytest.raises(httpx.HTTPError, match="larger than 100 bytes"):
            client.request("POST", server.url, largest_answer=100, content=b"x" * 101)


@pytest.fixture
def silent_addresses(server: Server) -> Iterator[list[str]]:
    """Addresses at the server's port whose connections never come about: the queue of each listener is full."""
    addresses = [f"127.0.0.{number}" for number in range(2, 6)]
    with ExitStack() as stack:
        for address in addresses:
            listener = stack.enter_context(socket.socket())
            listener.bind((address, server.server_port))
            listener.listen(0)
            for _ in range(4):
                waiting = stack.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex((address, server.server_port))
        yield addresses


@pytest.mark.long
def test_the_addresses_of_a_host_share_its_time(
    environment: pytest.MonkeyPatch, server: Server, silent_addresses: list[str]
) -> None:
    """Each of them had all of it."""

    def resolve(addresses: list[str]) -> None:
        answer = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, server.server_port)) for address in addresses]
        environment.setattr(socket, "getaddrinfo", lambda *_, **__: answer)

    url = f"http://several.invalid:{server.server_port}/hook"
    resolve([*silent_addresses, "127.0.0.1"])
    assert post(url).status == 201
    resolve(silent_addresses)
    began = time.monotonic()
    with pytest.raises(httpx.TimeoutException, match=r"no answer in 1.5 s"):
        post(url, seconds=1.5)
    assert time.monotonic() - began < 1.5 * len(silent_addresses)


def test_a_lookup_that_hangs_ends_in_time_and_delays_no_other_host(
    environment: pytest.MonkeyPatch, server: Server
) -> None:
    released, lookup = threading.Event(), socket.getaddrinfo

    def hanging(host: str | bytes, *rest: Any, **named: Any) -> Any:
        if host in ("hanging.invalid", b"hanging.invalid"):
            released.wait(60)
        return lookup(host, *rest, **named)

    environment.setattr(socket, "getaddrinfo", hanging)
    with ThreadPoolExecutor(20) as threads:
        requests = [threads.submit(post, "http://hanging.invalid/hook", 0.5) for _ in range(20)]
        assert post(f"http://localhost:{server.server_port}/hook").status == 201
        for request in requests:
            with pytest.raises(httpx.TimeoutException):
                request.result()
    released.set()
