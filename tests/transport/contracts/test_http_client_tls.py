"""Our requests over HTTPS: only to whom this machine trusts, under the name that was asked, also through a proxy."""

import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from crawler_lifecycle.transport.http_client import HttpAnswer, HttpClient
from tests.kubernetes.certificates import NAMES, Certificates

NAMED = next(name for name in NAMES if name != "localhost")  # in the certificate, and not asked directly
UNTRUSTED, OTHER_NAME = "unable to get local issuer certificate", "Hostname mismatch"


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, certificates: Certificates) -> None:
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), _Visit)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificates.server, certificates.server_key)
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)


class _Visit(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


class Proxy(ThreadingHTTPServer):
    """Whatever is asked for, it leads to the server."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        self.leads_to = port
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), _Tunnel)


class _Tunnel(BaseHTTPRequestHandler):
    server: Proxy

    def do_CONNECT(self) -> None:
        self.server.asked.append(self.path)
        self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
        with socket.create_connection(("127.0.0.1", self.server.leads_to)) as there:
            back = threading.Thread(target=_pour, args=(there, self.connection), daemon=True)
            back.start()
            _pour(self.connection, there)
            back.join(60)
        self.close_connection = True

    def log_message(self, *_: object) -> None: ...


def _pour(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    made = Certificates(tmp_path_factory.mktemp("certificates"))
    made.make()
    return made


def serving(server: ThreadingHTTPServer) -> threading.Thread:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    return thread


@pytest.fixture
def server(certificates: Certificates) -> Iterator[Server]:
    with Server(certificates) as server:
        serving(server)
        yield server
        server.shutdown()


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    return monkeypatch


@pytest.fixture
def proxy(server: Server, environment: pytest.MonkeyPatch) -> Iterator[Proxy]:
    with Proxy(server.server_port) as proxy:
        serving(proxy)
        environment.setenv("https_proxy", f"http://127.0.0.1:{proxy.server_port}")
        yield proxy
        proxy.shutdown()


def get(url: str) -> HttpAnswer:
    with closing(HttpClient(60)) as client:
        return client.request("GET", url, largest_answer=100)


def refused(url: str, why: str) -> None:
    with pytest.raises(httpx.ConnectError, match=why):
        get(url)


def trusted(environment: pytest.MonkeyPatch, authority: Path) -> None:
    environment.setenv("SSL_CERT_FILE", str(authority))


def test_only_whom_this_machine_trusts(
    environment: pytest.MonkeyPatch, server: Server, certificates: Certificates
) -> None:
    url = f"https://127.0.0.1:{server.server_port}/hook"
    refused(url, UNTRUSTED)
    assert server.asked == []
    trusted(environment, certificates.authority)
    assert get(url).status == 204
    assert server.asked == ["/hook"]


def test_only_under_its_own_name(environment: pytest.MonkeyPatch, server: Server, certificates: Certificates) -> None:
    trusted(environment, certificates.authority)
    here = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", server.server_port))]
    environment.setattr(socket, "getaddrinfo", lambda *_, **__: here)
    refused(f"https://elsewhere.invalid:{server.server_port}/hook", OTHER_NAME)
    assert server.asked == []
    assert get(f"https://{NAMED}:{server.server_port}/hook").status == 204


def test_the_same_through_a_proxy(
    environment: pytest.MonkeyPatch, server: Server, proxy: Proxy, certificates: Certificates
) -> None:
    refused(f"https://{NAMED}/hook", UNTRUSTED)
    trusted(environment, certificates.authority)
    refused("https://elsewhere.invalid/hook", OTHER_NAME)
    assert server.asked == []
    assert get(f"https://{NAMED}/hook").status == 204
    assert server.asked == ["/hook"]
    assert proxy.asked == [f"{NAMED}:443", "elsewhere.invalid:443", f"{NAMED}:443"]


def test_one_thread_alone_changes_and_uses_a_context(
    environment: pytest.MonkeyPatch, server: Server, certificates: Certificates
) -> None:
    """httpcore sets the protocols anew for each connection; what another thread just opened with them was rubbish."""
    trusted(environment, certificates.authority)
    used, changed = list[int](), list[int]()
    wrap, change = ssl.SSLContext.wrap_bio, ssl.SSLContext.set_alpn_protocols

    def wrapping(context: ssl.SSLContext, *given: object, **named: object) -> ssl.SSLObject:
        used.append(threading.get_ident())
        return wrap(context, *given, **named)  # type: ignore[arg-type]

    def changing(context: ssl.SSLContext, protocols: list[str]) -> None:
        changed.append(threading.get_ident())
        change(context, protocols)

    with closing(HttpClient(60)) as client, ThreadPoolExecutor(4) as threads:
        environment.setattr(ssl.SSLContext, "wrap_bio", wrapping)
        environment.setattr(ssl.SSLContext, "set_alpn_protocols", changing)
        url, headers = f"https://127.0.0.1:{server.server_port}/hook", {"Connection": "close"}
        requests = [threads.submit(client.request, "GET", url, largest_answer=100, headers=headers) for _ in range(8)]
        assert [request.result().status for request in requests] == [204] * 8
    assert len(used) == len(changed) == 8
    assert len({*used, *changed}) == 1
