"""Is every Deployer what `clusters.ports.Deployer` promises, and does ours tell a refusal from not knowing?"""

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from crawler_lifecycle.clusters.adapters.scheduler_client import SchedulerClient
from crawler_lifecycle.clusters.ports import Deployer
from crawler_lifecycle.errors import BadInput, Conflict, LifecycleError, NotReady, Refused, TemporaryError
from crawler_lifecycle.model.deployment import Crawler
from tests.kit.clusters.schedulers import TOKEN, SmallCluster, a_catalogue, a_request, served
from tests.kit.samples import few


@pytest.fixture
def cluster() -> SmallCluster:
    return SmallCluster()


@pytest.fixture
def url(cluster: SmallCluster, tmp_path: Path) -> Iterator[str]:
    with served(cluster, a_catalogue(tmp_path)) as address:
        yield address


@pytest.fixture
def deployer(url: str) -> Iterator[Deployer]:
    client = SchedulerClient(url, TOKEN, timeout=10)
    yield client
    client.close()


# Every Deployer


def test_the_same_key_is_the_same_job(deployer: Deployer, cluster: SmallCluster) -> None:
    request = a_request()
    first, second = deployer.deploy(request), deployer.deploy(request)
    assert (first.created, second.created) == (True, False)
    assert first.model_copy(update={"created": False}) == second
    assert first.key == request.key
    assert [made for made, _ in cluster.jobs.values()] == [request]


def test_tries_at_once_make_one_job(deployer: Deployer, cluster: SmallCluster) -> None:
    request = a_request()
    with ThreadPoolExecutor(8) as pool:
        deployments = list(pool.map(lambda _: deployer.deploy(request), range(24)))
    assert len({deployment.job_uid for deployment in deployments}) == 1
    assert sum(deployment.created for deployment in deployments) == 1
    assert len(cluster.jobs) == 1


def test_a_key_used_for_something_else_is_a_conflict(deployer: Deployer) -> None:
    request = a_request()
    deployer.deploy(request)
    with pytest.raises(Conflict, match=request.key):
        deployer.deploy(request.model_copy(update={"arguments": {"site": "another"}}))


def test_a_crawler_that_is_not_in_the_catalogue_is_refused(deployer: Deployer, cluster: SmallCluster) -> None:
    with pytest.raises(Refused, match=r"crawler: .*'gone'"):
        deployer.deploy(a_request(crawler=Crawler(name="gone", command=["true"])))
    assert not cluster.jobs


def test_what_the_cluster_refuses_is_refused(deployer: Deployer, cluster: SmallCluster) -> None:
    cluster.trouble = Refused("no images here")
    with pytest.raises(Refused, match="no images here"):
        deployer.deploy(a_request())


@pytest.mark.parametrize(
    "trouble",
    [
        TemporaryError("exceeded quota", cause="quota"),
        TemporaryError("no answer", cause="cluster_unavailable"),
        Refused("the webhook says no", cause="admission_denied"),
    ],
)
def test_the_word_for_what_is_in_the_way_is_handed_on(
    deployer: Deployer, cluster: SmallCluster, trouble: LifecycleError
) -> None:
    cluster.trouble = trouble
    with pytest.raises(type(trouble), match=trouble.message) as caught:
        deployer.deploy(a_request())
    assert caught.value.cause == trouble.cause


def test_what_the_cluster_cannot_do_now_is_temporary(deployer: Deployer, cluster: SmallCluster) -> None:
    cluster.trouble = TemporaryError("the disk is full")
    with pytest.raises(TemporaryError, match="the disk is full"):
        deployer.deploy(a_request())


def test_a_bug_of_the_service_is_temporary(deployer: Deployer, cluster: SmallCluster) -> None:
    cluster.trouble = RuntimeError("a secret detail")
    with pytest.raises(TemporaryError, match="500") as caught:
        deployer.deploy(a_request())
    assert "secret" not in caught.value.message


@pytest.mark.parametrize("name", ["bookshop", "odd/../name %2F?&#é 100%", ".."])
def test_entries_are_found_by_any_name(deployer: Deployer, name: str) -> None:
    assert deployer.crawler(name).name == name


@pytest.mark.parametrize("name", ["unknown", "bookshop/", "x" * 129, "", "two\nlines"])
def test_a_name_that_is_not_there_is_bad_input(deployer: Deployer, name: str) -> None:
    with pytest.raises(BadInput) as caught:
        deployer.crawler(name)
    assert caught.value.field == "crawler"


def test_check_is_one_line(deployer: Deployer, cluster: SmallCluster) -> None:
    assert "3 crawlers" in deployer.check()
    cluster.trouble = TemporaryError("no cluster today")
    with pytest.raises(LifecycleError, match="no cluster today"):
        deployer.check()


# Ours, with everything that is not a scheduler service's answer


def test_a_wrong_token_ends_no_run_but_fails_the_check(url: str) -> None:
    client = SchedulerClient(url, "another", timeout=10)
    with pytest.raises(TemporaryError, match="TOKEN"):
        client.deploy(a_request())
    with pytest.raises(TemporaryError, match="TOKEN"):
        client.crawler("bookshop")
    with pytest.raises(NotReady, match="TOKEN"):
        client.check()


def test_a_request_that_is_too_large_is_refused(deployer: Deployer, cluster: SmallCluster) -> None:
    arguments = {f"argument {number}": "\x01" * 4096 for number in range(60)}
    with pytest.raises(Refused, match="larger"):
        deployer.deploy(a_request(arguments=arguments))
    assert not cluster.jobs


def test_a_proxy_of_the_environment_is_not_asked_for_loopback(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    assert SchedulerClient(url, TOKEN, timeout=10).crawler("bookshop").processes == 4


def test_a_service_that_is_not_there_is_temporary_and_found_again(cluster: SmallCluster, tmp_path: Path) -> None:
    with served(cluster, a_catalogue(tmp_path)) as url:
        client = SchedulerClient(url, TOKEN, timeout=10)
        client.check()
    with pytest.raises(TemporaryError, match="is it running"):
        client.deploy(a_request())


@pytest.mark.parametrize(
    ("url", "token"),
    [
        ("127.0.0.1:8310", TOKEN),
        ("ftp://127.0.0.1", TOKEN),
        ("http://127.0.0.1:port", TOKEN),
        ("http://", TOKEN),
        ("http://127.0.0.1:8310", ""),
        ("http://127.0.0.1:8310", "two words"),
        ("http://127.0.0.1:8310", "line\n"),
        ("http://127.0.0.1:8310", "tøken"),
    ],
)
def test_settings_that_cannot_work_are_told_at_once(url: str, token: str) -> None:
    with pytest.raises(NotReady, match="CRAWLER_SCHEDULER__"):
        SchedulerClient(url, token, timeout=1)


@contextmanager
def answering(status: int, body: bytes, pause: float = 0.0) -> Iterator[SchedulerClient]:
    """A client of something that gives this answer to every request, a byte each `pause` seconds."""
    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            for piece in [body] if not pause else [body[i : i + 1] for i in range(len(body))]:
                self.wfile.write(piece)
                if ended.wait(pause):
                    return

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    client = SchedulerClient(f"http://127.0.0.1:{server.server_port}", TOKEN, timeout=1.0)
    try:
        yield client
    finally:
        ended.set()
        client.close()
        server.shutdown()
        server.server_close()


PAGE = b"<html>Welcome to the proxy</html>"
OTHER_JOB = json.dumps({"key": "another:0:1", "job_name": "x", "job_uid": "y", "created": True}).encode()


@pytest.mark.parametrize("body", [PAGE, b"", b"{}", b'{"detail": "Not Found"}', OTHER_JOB, b"\xff\x00"])
@pytest.mark.parametrize(
    "status",
    few([200, 201, 204, 302, 404, 405, 422, 409, 429, 500, 502, 503], [200, 204, 404, 422, 503], pytest.mark.long),
)
def test_what_is_not_a_scheduler_service_says_nothing_about_the_request(status: int, body: bytes) -> None:
    with answering(status, b"" if status == 204 else body) as client, pytest.raises(TemporaryError):
        client.deploy(a_request())


@pytest.mark.parametrize("status", [404, 429, 500, 503])
def test_a_problem_of_another_status_is_not_final(status: int) -> None:
    body = json.dumps({"title": "x", "status": status, "detail": "not now"}).encode()
    with answering(status, body) as client, pytest.raises(TemporaryError, match="not now"):
        client.deploy(a_request())


def test_an_answer_that_trickles_in_is_given_up() -> None:
    began = time.monotonic()
    with answering(200, b" " * 1000, pause=0.1) as client, pytest.raises(TemporaryError):
        client.deploy(a_request())
    assert time.monotonic() - began < 30  # all of it would take 100 s
