"""An answer of the API server that is long: packed if it can be, and never longer or slower than is bearable."""

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crawler_lifecycle.adapters.kubernetes import receiving
from crawler_lifecycle.adapters.kubernetes.answers import ApiFailed
from crawler_lifecycle.adapters.kubernetes.api import Api
from crawler_lifecycle.adapters.kubernetes.decoding import JOBS, Unreadable
from tests.api_servers import ApiServer, Fault, an_access, an_api_server

LONG = " ".join(str(number) for number in range(40_000))


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with an_api_server() as server:
        server.put("jobs", {"metadata": {"name": "one", "annotations": {"long": LONG}}})
        yield server


@pytest.fixture
def api(server: ApiServer, tmp_path: Path) -> Api:
    return Api(an_access(server, tmp_path))


def spoil(server: ApiServer, how: Callable[[bytes], bytes]) -> None:
    server.faults = [Fault("GET", "/jobs", spoils=how)]


def test_a_long_answer_comes_packed_and_is_unpacked(api: Api, server: ApiServer) -> None:
    sent: list[bytes] = []

    def seen(packed: bytes) -> bytes:
        sent.append(packed)
        return packed

    spoil(server, seen)
    page = api.get(api.batch("jobs"))
    assert json.loads(page)["items"][0]["metadata"]["annotations"] == {"long": LONG}
    assert len(b"".join(sent)) < len(page) / 2
    assert gzip.decompress(sent[0]) == page


def test_what_goes_on_is_not_offered_to_be_packed(api: Api, server: ApiServer) -> None:
    """What packs might keep a line until there are more."""
    server.watching = [[b"one"]]
    list(api.lines(api.batch("jobs"), {"watch": 1}))
    assert server.seen[-1].headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (lambda packed: packed[:-100], "its end is missing"),
        (lambda packed: packed[:1000] + packed[1010:], "cannot be unpacked"),
        (lambda packed: packed[:-8] + bytes(8), "cannot be unpacked"),  # its checksum
        (lambda _: b"{}", "cannot be unpacked"),
        (lambda _: b"", "its end is missing"),
    ],
)
def test_what_cannot_be_unpacked_is_no_answer(
    api: Api, server: ApiServer, how: Callable[[bytes], bytes], said: str
) -> None:
    spoil(server, how)
    with pytest.raises(ApiFailed, match=said) as caught:
        api.get(api.batch("jobs"))
    assert caught.value.status is None
    assert api.get(api.batch("jobs")), "and the next one is as always"


def test_half_of_what_was_packed_is_no_list(api: Api, server: ApiServer) -> None:
    spoil(server, lambda packed: gzip.compress(gzip.decompress(packed)[:-1000]))
    page = api.get(api.batch("jobs"))
    with pytest.raises(Unreadable):
        JOBS.page(page)


def test_what_never_ends_once_it_is_unpacked_is_given_up(
    api: Api, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "LARGEST_ANSWER", 1 << 20)
    spoil(server, lambda _: gzip.compress(bytes(2 << 20)))
    with pytest.raises(ApiFailed, match="does not end"):
        api.get(api.batch("jobs"))
    spoil(server, lambda _: gzip.compress(bytes(1 << 20)))
    page = api.get(api.batch("jobs"))
    assert len(page) == 1 << 20


def test_who_drips_what_unpacks_to_nothing_is_left(
    api: Api, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "LONGEST_ANSWER_SECONDS", 0.5)
    over = threading.Event()
    empty_blocks = b"\x00\x00\x00\xff\xff" * 10_000
    server.faults = [Fault("GET", "/jobs", drips=over, spoils=lambda packed: packed[:10] + empty_blocks)]
    with pytest.raises(ApiFailed, match="does not end"):
        api.get(api.batch("jobs"))
    over.set()
