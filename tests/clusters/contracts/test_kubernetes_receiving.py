"""An answer of the API server that is long: packed if it can be, and never longer or slower than is bearable."""

import gzip
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crawler_lifecycle.clusters.kubernetes.http import answers
from crawler_lifecycle.clusters.kubernetes.http.answers import ApiFailed, Missing
from crawler_lifecycle.clusters.kubernetes.http.api import KubernetesApi
from tests.kit.clusters.api_servers import Answered, ApiServer, Fault, an_access, an_api_server

LONG = " ".join(str(number) for number in range(40_000))


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with an_api_server() as server:
        server.put("jobs", {"metadata": {"name": "one", "annotations": {"long": LONG}}})
        yield server


@pytest.fixture
def api(server: ApiServer, tmp_path: Path) -> KubernetesApi:
    return KubernetesApi(an_access(server, tmp_path))


def spoil(server: ApiServer, how: Callable[[bytes], bytes]) -> None:
    server.faults = [Fault("GET", "/jobs", spoils=how)]


def test_a_long_answer_comes_packed_and_is_unpacked(api: KubernetesApi, server: ApiServer) -> None:
    sent: list[bytes] = []

    def seen(packed: bytes) -> bytes:
        sent.append(packed)
        return packed

    spoil(server, seen)
    page = api.get(api.jobs_path())
    assert json.loads(page)["items"][0]["metadata"]["annotations"] == {"long": LONG}
    assert len(b"".join(sent)) < len(page) / 2
    assert gzip.decompress(sent[0]) == page


def test_what_goes_on_is_not_offered_to_be_packed(api: KubernetesApi, server: ApiServer) -> None:
    server.watching = [[b"one"]]
    list(api.lines(api.jobs_path(), {"watch": 1}))
    server.put("pods", {"metadata": {"name": "of-one"}})
    server.logs["of-one"] = LONG.encode()
    assert b"".join(api.chunks(api.core_path("pods", "of-one", "log"))) == LONG.encode()
    assert [seen.headers["Accept-Encoding"] for seen in server.seen] == ["identity"] * 2


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (lambda packed: packed[:-100], "its end is missing"),
        (lambda packed: packed[:1000] + packed[1010:], "cannot be unpacked"),
        (lambda packed: packed[:-8] + bytes(8), "cannot be unpacked"),  # its checksum
        (lambda packed: packed + packed, "continues after"),
        (lambda packed: gzip.compress(b"") + packed, "continues after"),
        (lambda _: b"{}", "cannot be unpacked"),
        (lambda _: b"", "its end is missing"),
    ],
)
def test_what_cannot_be_unpacked_is_no_answer(
    api: KubernetesApi, server: ApiServer, how: Callable[[bytes], bytes], said: str
) -> None:
    spoil(server, how)
    with pytest.raises(ApiFailed, match=said) as caught:
        api.get(api.jobs_path())
    assert caught.value.status is None
    assert json.loads(api.get(api.jobs_path()))["items"], "the next one is as always"


@pytest.mark.parametrize("name", ["GZIP", " x-gzip "])
def test_it_may_be_spelled_otherwise(api: KubernetesApi, server: ApiServer, name: str) -> None:
    server.faults = [Fault("GET", "/jobs", packed_as=name)]
    assert json.loads(api.get(api.jobs_path()))["items"]


def test_what_nobody_offered_is_not_guessed_at(api: KubernetesApi, server: ApiServer) -> None:
    server.faults = [Fault("GET", "/jobs", packed_as="gzip, br")]
    with pytest.raises(ApiFailed, match="packed as 'gzip, br'"):
        api.get(api.jobs_path())


@pytest.mark.parametrize("name", ["gzip", "br"])
def test_what_goes_on_and_is_packed_all_the_same_is_no_answer(api: KubernetesApi, server: ApiServer, name: str) -> None:
    server.put("pods", {"metadata": {"name": "of-one"}})
    server.logs["of-one"] = b"the end"
    server.faults = [Fault("GET", "/log", packed_as=name)]
    with pytest.raises(ApiFailed, match=f"packed as '{name}'"):
        list(api.chunks(api.core_path("pods", "of-one", "log")))


def test_one_whose_connection_breaks_in_the_middle_is_asked_for_again(api: KubernetesApi, server: ApiServer) -> None:
    breaks = threading.Event()
    breaks.set()
    server.faults = [Fault("GET", "/jobs", drips=breaks)]
    assert json.loads(api.get(api.jobs_path()))["items"]
    assert len(server.asked("GET", "/jobs")) == 2


def test_a_long_no_is_unpacked_as_well(api: KubernetesApi, server: ApiServer) -> None:
    server.faults = [Fault("GET", "/jobs", Answered(404, "NotFound", LONG))]
    with pytest.raises(Missing, match=LONG):
        api.get(api.jobs_path())


def test_a_long_no_that_cannot_be_unpacked_is_a_no(api: KubernetesApi, server: ApiServer) -> None:
    server.faults = [Fault("GET", "/jobs", Answered(500, "InternalError", LONG), spoils=lambda _: b"{}")]
    with pytest.raises(ApiFailed) as caught:
        api.get(api.jobs_path())
    assert caught.value.status == 500


@pytest.mark.parametrize("filling", [bytes, os.urandom])
def test_what_is_too_long_once_it_is_unpacked_is_given_up(
    api: KubernetesApi, server: ApiServer, monkeypatch: pytest.MonkeyPatch, filling: Callable[[int], bytes]
) -> None:
    monkeypatch.setattr(answers, "LARGEST_ANSWER", 1 << 20)
    spoil(server, lambda _: gzip.compress(filling((1 << 20) + 1)))
    with pytest.raises(ApiFailed, match="too long"):
        api.get(api.jobs_path())
    spoil(server, lambda _: gzip.compress(filling(1 << 20)))
    assert len(api.get(api.jobs_path())) == 1 << 20


def test_who_drips_what_unpacks_to_nothing_is_left(
    api: KubernetesApi, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "LONGEST_ANSWER_SECONDS", 0.5)
    over = threading.Event()
    empty_blocks = b"\x00\x00\x00\xff\xff" * 10_000
    server.faults = [Fault("GET", "/jobs", drips=over, spoils=lambda packed: packed[:10] + empty_blocks)]
    with pytest.raises(ApiFailed, match="does not end"):
        api.get(api.jobs_path())
    over.set()
