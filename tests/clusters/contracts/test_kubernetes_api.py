"""The transport to the API server: what is sent again, what never, and that every wait ends."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import urllib3

from crawler_lifecycle.clusters.kubernetes.http import answers
from crawler_lifecycle.clusters.kubernetes.http import api as transport
from crawler_lifecycle.clusters.kubernetes.http.answers import ApiFailed, Missing
from crawler_lifecycle.clusters.kubernetes.http.api import KubernetesApi
from crawler_lifecycle.clusters.kubernetes.http.connection import ApiAccess
from crawler_lifecycle.clusters.kubernetes.http.server_checks import RIGHTS, missing_rights
from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.settings.cluster import BUSY_SECONDS
from tests.kit.clusters.api_servers import Answered, ApiServer, Fault, Json, an_access, an_api_server


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with an_api_server() as server:
        yield server


@pytest.fixture
def api(server: ApiServer, tmp_path: Path) -> KubernetesApi:
    return KubernetesApi(an_access(server, tmp_path))


def a_job(name: str) -> dict[str, object]:
    return {"metadata": {"name": name, "labels": {"number": name}}}


def test_what_is_not_there_is_missing_only_if_the_api_server_itself_says_so(api: KubernetesApi) -> None:
    with pytest.raises(Missing):
        api.get(api.jobs_path("none"))
    with pytest.raises(ApiFailed) as caught:
        api.get("/healthz/of/a/proxy")
    assert caught.value.status == 404


def test_connections_are_kept(api: KubernetesApi, server: ApiServer) -> None:
    for _ in range(5):
        api.get(api.namespace_path())
    with pytest.raises(Missing):
        api.get(api.jobs_path("none"))
    api.get(api.namespace_path())
    assert len({seen.connection for seen in server.seen}) == 1


def test_as_many_connections_are_kept_as_threads_ask(server: ApiServer, tmp_path: Path) -> None:
    api = KubernetesApi(an_access(server, tmp_path, connections=12))
    barrier = threading.Barrier(12)

    def ask(_: int) -> None:
        for _ in range(5):
            barrier.wait(20)
            api.get(api.namespace_path())

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(ask, range(12)))
    assert len({seen.connection for seen in server.seen}) <= 12, "none is thrown away and opened anew"


def test_a_token_that_was_changed_is_read_again_once(api: KubernetesApi, server: ApiServer, tmp_path: Path) -> None:
    api.get(api.namespace_path())
    server.tokens = {"second"}
    (tmp_path / "token").write_text("second\n")
    api.post(api.jobs_path(), a_job("one"))
    assert len(server.asked("POST")) == 2
    server.tokens = {"third"}
    with pytest.raises(ApiFailed) as caught:
        api.get(api.namespace_path())
    assert caught.value.status == 401
    assert len(server.asked("GET")) == 3


def test_a_token_is_read_again_by_one_thread_for_all(api: KubernetesApi, server: ApiServer, tmp_path: Path) -> None:
    server.tokens = {"second"}
    (tmp_path / "token").write_text("second\n")
    with ThreadPoolExecutor(8) as pool:
        assert len(list(pool.map(lambda _: api.get(api.namespace_path()), range(8)))) == 8


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.long
def test_a_busy_server_is_asked_again_when_it_says(
    api: KubernetesApi, server: ApiServer, method: str, status: int
) -> None:
    server.put("jobs", a_job("one"))
    busy = Answered(status, "TooManyRequests", "too many requests", {"Retry-After": "0"})
    server.faults = [Fault(method, "jobs", busy), Fault(method, "jobs", busy)]
    if method == "GET":
        api.get(api.jobs_path("one"))
    elif method == "POST":
        api.post(api.jobs_path(), a_job("two"))
    else:
        api.delete(api.jobs_path("one"), {})
    assert len(server.asked(method)) == 3


def test_patience_with_a_busy_server_ends(api: KubernetesApi, server: ApiServer) -> None:
    busy = Answered(429, "TooManyRequests", "too many requests", {"Retry-After": "3600"})
    server.faults = [Fault("GET", "", busy)]
    with pytest.raises(ApiFailed) as caught:
        api.get(api.namespace_path())
    assert (caught.value.status, caught.value.retry_after) == (429, 3600)
    assert len(server.seen) == 1


def test_no_try_begins_after_the_time_for_all_of_them(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job made later than anybody reckoned with belongs to a claim that ran out, and nobody would watch it."""
    monkeypatch.setattr(transport, "BUSY_SECONDS", 0.5)
    api = KubernetesApi(an_access(server, tmp_path))
    busy = Answered(429, "TooManyRequests", "too many requests", {"Retry-After": "0"})
    server.faults = [Fault("POST", "jobs", busy, after=0.3) for _ in range(3)]
    with pytest.raises(ApiFailed) as caught:
        api.post(api.jobs_path(), a_job("one"))
    assert caught.value.status == 429
    assert server.objects["jobs"] == {}


def test_nor_does_one_with_a_new_token(server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "BUSY_SECONDS", 0.2)
    api = KubernetesApi(an_access(server, tmp_path))
    server.faults = [Fault("POST", "jobs", Answered(401, "Unauthorized", "Unauthorized"), after=0.3)]
    with pytest.raises(ApiFailed) as caught:
        api.post(api.jobs_path(), a_job("one"))
    assert caught.value.status == 401
    assert len(server.asked("POST")) == 1


def test_nothing_is_sent_when_connecting_took_all_of_its_time(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As over several addresses, or through a TLS that is slow in each step."""
    connect = urllib3.connection.HTTPConnection.connect

    def slowly(self: urllib3.connection.HTTPConnection) -> None:
        connect(self)
        time.sleep(0.3)

    monkeypatch.setattr(urllib3.connection.HTTPConnection, "connect", slowly)
    api = KubernetesApi(an_access(server, tmp_path, connect_seconds=0.2))
    with pytest.raises(ApiFailed, match="took too long") as caught:
        api.post(api.jobs_path(), a_job("one"))
    assert caught.value.timed_out
    assert api.get(api.namespace_path())
    assert server.asked("POST") == []


@pytest.mark.parametrize("status", [500, 503, 504])
def test_an_error_of_the_server_is_told_at_once(api: KubernetesApi, server: ApiServer, status: int) -> None:
    server.faults = [Fault("GET", "", Answered(status, "InternalError", "etcd is away"))]
    with pytest.raises(ApiFailed, match="etcd is away") as caught:
        api.get(api.namespace_path())
    assert (caught.value.status, caught.value.reason) == (status, "InternalError")
    assert len(server.seen) == 1


def test_a_page_of_a_proxy_is_shown(api: KubernetesApi, server: ApiServer) -> None:
    page = Answered(502)
    page.body = {"kind": "<html>", "oops": 1}
    server.faults = [Fault("GET", "", page)]
    with pytest.raises(ApiFailed, match="oops"):
        api.get(api.namespace_path())


@pytest.mark.parametrize("method", ["get", "delete", "post", "chunks"])
def test_a_page_of_a_proxy_is_no_answer_whatever_its_status(api: KubernetesApi, server: ApiServer, method: str) -> None:
    verb = {"chunks": "GET"}.get(method, method.upper())
    server.faults = [Fault(verb, "", Answered(200, headers={"Content-Type": "text/html; charset=utf-8"}))]
    body: tuple[Json, ...] = () if verb == "GET" else ({},)
    with pytest.raises(ApiFailed, match=f"a proxy answers {verb} /api/v1/namespaces/crawls with a page"):
        list(getattr(api, method)(api.namespace_path(), *body))


def test_a_read_is_sent_again_when_its_connection_broke_and_a_write_is_not(
    api: KubernetesApi, server: ApiServer
) -> None:
    server.faults = [Fault("GET", "", drop="after")]
    api.get(api.namespace_path())
    assert len(server.asked("GET")) == 2
    for method, drop in (("POST", "before"), ("POST", "after"), ("DELETE", "after")):
        server.put("jobs", a_job("one"))
        server.seen.clear()
        server.faults = [Fault(method, "", drop=drop)]
        write: Callable[[], bytes] = partial(api.post, api.jobs_path(), a_job("two" + drop))
        if method == "DELETE":
            write = partial(api.delete, api.jobs_path("one"), {})
        with pytest.raises(ApiFailed) as caught:
            write()
        assert caught.value.status is None
        assert len(server.seen) == 1


def test_a_server_that_is_silent_is_given_up(server: ApiServer, tmp_path: Path) -> None:
    api = KubernetesApi(an_access(server, tmp_path, read_seconds=0.3))
    silence = threading.Event()
    server.faults = [Fault(method, "", hang=silence) for method in ("GET", "POST", "DELETE", "GET")]
    try:
        for ask in (
            lambda: api.get(api.namespace_path()),
            lambda: api.post(api.jobs_path(), a_job("one")),
            lambda: api.delete(api.jobs_path("one"), {}),
            lambda: list(api.lines(api.jobs_path(), silence=0.3)),
        ):
            with pytest.raises(ApiFailed, match="no answer of the Kubernetes API") as caught:
                ask()
            assert caught.value.status is None
    finally:
        silence.set()
    assert len(server.seen) == 4


def test_nobody_there_is_told(tmp_path: Path, server: ApiServer) -> None:
    server.url = "http://127.0.0.1:9"
    api = KubernetesApi(an_access(server, tmp_path))
    with pytest.raises(ApiFailed, match=r"127\.0\.0\.1:9"):
        api.get(api.namespace_path())


def test_this_machine_is_not_asked_through_a_proxy(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    api = KubernetesApi(an_access(server, tmp_path))
    assert api.get(api.namespace_path())


def test_a_list_comes_in_pages(api: KubernetesApi, server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "PAGE", 4)
    for number in range(10):
        server.put("jobs", a_job(f"job-{number}"))
    pages = [json.loads(page)["items"] for page in api.pages(api.jobs_path())]
    assert [len(page) for page in pages] == [4, 4, 2]
    assert {item["metadata"]["name"] for page in pages for item in page} == {f"job-{number}" for number in range(10)}
    assert all("resourceVersion" not in seen.query for seen in server.seen)


def test_a_list_that_became_too_old_begins_anew(
    api: KubernetesApi, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "PAGE", 1)
    for number in range(3):
        server.put("jobs", a_job(f"job-{number}"))
    server.faults = [Fault("GET", "continue", Answered(410, "Expired", "the continue token is too old"))]

    pages = [json.loads(page)["items"][0]["metadata"]["name"] for page in api.pages(api.jobs_path())]

    assert pages == ["job-0", "job-0", "job-1", "job-2"]


def test_a_page_that_is_too_long_comes_in_smaller_ones(
    api: KubernetesApi, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "LARGEST_ANSWER", 20_000)
    for number in range(20):
        server.put("jobs", a_job(f"job-{number:02}") | {"spec": {"template": "x" * 5_000}})

    pages = [json.loads(page)["items"] for page in api.pages(api.jobs_path(), {"limit": 16})]

    assert [item["metadata"]["name"] for page in pages for item in page] == [f"job-{number:02}" for number in range(20)]


def test_an_object_that_is_too_long_by_itself_is_told(
    api: KubernetesApi, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "LARGEST_ANSWER", 1_000)
    server.put("jobs", a_job("one") | {"spec": {"template": "x" * 5_000}})

    with pytest.raises(ApiFailed, match="too long"):
        list(api.pages(api.jobs_path()))


def test_a_list_that_becomes_too_old_again_says_so(
    api: KubernetesApi, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "PAGE", 1)
    server.put("jobs", a_job("one"))
    server.put("jobs", a_job("two"))
    too_old = Answered(410, "Expired", "the continue token is too old")
    server.faults = [Fault("GET", "continue", too_old), Fault("GET", "continue", too_old)]
    pages = api.pages(api.jobs_path())
    with pytest.raises(ApiFailed) as caught:
        list(pages)
    assert caught.value.status == 410


@pytest.mark.parametrize("repeated", [("2", "2"), ("2", "4", "2")])
def test_a_list_that_repeats_its_pages_ends_with_an_error(
    api: KubernetesApi, server: ApiServer, repeated: tuple[str, ...]
) -> None:
    for token in repeated:
        page = Answered(200)
        page.body = {"kind": "JobList", "metadata": {"continue": token}, "items": []}
        server.faults.append(Fault("GET", "jobs", page))

    with pytest.raises(ApiFailed, match="repeats a page"):
        list(api.pages(api.jobs_path()))
    assert len(server.seen) == len(repeated)


def test_four_lists_at_once_and_no_more(api: KubernetesApi, server: ApiServer) -> None:
    server.slow_lists = threading.Barrier(4)
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda _: list(api.pages(api.jobs_path())), range(16)))
    assert server.lists_at_once == 4


def test_lines_come_whole(api: KubernetesApi, server: ApiServer) -> None:
    server.watching = [[b"x" * 200_000, b"two", b"three"]]
    begun, *lines = api.lines(api.jobs_path(), {"watch": 1})
    assert (begun, lines) == (b"", [b"x" * 200_000, b"two", b"three"])


def test_a_line_without_an_end_is_given_up(
    api: KubernetesApi, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "LONGEST_LINE", 100_000)
    server.watching = [[b"one", b"x" * 400_000]]
    lines = api.lines(api.jobs_path(), {"watch": 1})
    assert [next(lines), next(lines)] == [b"", b"one"]
    with pytest.raises(ApiFailed, match="does not end"):
        next(lines)


@pytest.mark.long
def test_a_busy_server_that_asks_for_no_pause_gets_one(api: KubernetesApi, server: ApiServer) -> None:
    busy = Answered(429, "TooManyRequests", "too many requests", {"Retry-After": "0"})
    server.faults = [Fault("GET", "jobs", busy) for _ in range(100)]
    with pytest.raises(ApiFailed):
        api.get(api.jobs_path())
    assert len(server.seen) <= BUSY_SECONDS / transport.SHORTEST_PAUSE + 1


def test_no_access_is_one_line_that_names_the_setting(tmp_path: Path) -> None:
    for content in (None, "", "not: [valid", "kind: Config"):
        path = tmp_path / "config"
        if content is not None:
            path.write_text(content)
        with pytest.raises(NotReady, match="CRAWLER_KUBERNETES__KUBECONFIG"):
            KubernetesApi(ApiAccess("crawls", kubeconfig=path))


def test_missing_rights_are_told_one_by_one(api: KubernetesApi, server: ApiServer) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert missing_rights(api, pool) == []
        server.denied = {("delete", "pods"), ("get", "pods/log"), ("get", "namespaces")}
        missing = missing_rights(api, pool)
    assert {str(right) for right in missing} == {"delete pods", "get pods/log", "get namespaces"}
    asked = [seen.body["spec"]["resourceAttributes"] for seen in server.asked("POST")]
    assert len(asked) == 2 * len(RIGHTS)
    assert all(each["namespace"] == "crawls" for each in asked)
    assert all(each["group"] == ("batch" if each["resource"] == "jobs" else "") for each in asked)
