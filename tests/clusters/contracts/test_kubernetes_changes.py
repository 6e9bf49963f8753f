"""The stream of changes goes on whatever ends it, and begins anew where it has to."""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from crawler_lifecycle.base.pacing import Backoff
from crawler_lifecycle.clusters.kubernetes.http.api import KubernetesApi
from crawler_lifecycle.clusters.kubernetes.observe import changes
from crawler_lifecycle.clusters.kubernetes.observe.changes import Changes
from crawler_lifecycle.errors import TemporaryError
from tests.kit.clusters.api_servers import Answered, ApiServer, Fault, Seen, a_change, an_access, an_api_server
from tests.kit.waiting import until

INSTALLATION = str(uuid4())
ONE, TWO = str(uuid4()), str(uuid4())
EXPIRED = b'{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old resource version"}}'
BROKEN = b'{"type":"ERROR","object":{"kind":"Status","code":500,"message":"etcd leader changed"}}'


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with an_api_server() as server:
        yield server


@pytest.fixture
def watch(server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Iterator[set[str]]]:
    monkeypatch.setattr(changes, "PAUSES", Backoff(timedelta(seconds=0.01), timedelta(seconds=0.1)))
    return lambda: Changes(KubernetesApi(an_access(server, tmp_path)), INSTALLATION)


def told(stream: Iterator[set[str]], *expected: str) -> None:
    missing = set(expected)

    def all_told() -> bool:
        with suppress(TemporaryError):  # it goes on
            missing.difference_update(next(stream))
        return not missing

    until(all_told, f"{expected} to be told")


def streams(server: ApiServer) -> list[Seen]:
    return [seen for seen in server.asked("GET") if "watch" in seen.query]


def begins(server: ApiServer, count: int) -> list[str | None]:
    """The versions that the first streams began at."""
    until(lambda: len(streams(server)) >= count, f"{count} streams to begin")
    return [seen.query.get("resourceVersion") for seen in streams(server)[:count]]


def test_what_is_there_and_what_changes_is_told(server: ApiServer, watch: Callable[[], Iterator[set[str]]]) -> None:
    server.watching = [[a_change("ADDED", 90, ONE), a_change("MODIFIED", 101, TWO)]]
    stream = watch()
    told(stream, ONE, TWO)
    [first, *_] = streams(server)
    assert first.query["labelSelector"] == f"crawler-lifecycle/installation={INSTALLATION}"
    assert (first.query["allowWatchBookmarks"], "resourceVersion" in first.query) == ("true", False)
    assert int(first.query["timeoutSeconds"]) > 0


def test_silence_is_told(watch: Callable[[], Iterator[set[str]]]) -> None:
    assert next(watch()) == set()


def test_a_stream_that_ended_is_taken_up_where_it_was(
    server: ApiServer, watch: Callable[[], Iterator[set[str]]]
) -> None:
    def later(version: int, *lines: bytes) -> Callable[[], list[bytes]]:
        def say() -> list[bytes]:
            server.version = version
            return list(lines)

        return say

    server.watching = [
        later(150, a_change("ADDED", 90, ONE)),  # it was there before: the list stood at 100 when the stream began
        later(160, a_change("BOOKMARK", 140)),
        later(170, a_change("MODIFIED", 155, TWO)),
    ]
    stream = watch()  # a stream that nothing refers to ends
    told(stream, ONE, TWO)
    assert begins(server, 4) == [None, "100", "140", "155"]


@pytest.mark.parametrize("expired", [[EXPIRED], Answered(410, "Expired", "too old resource version")])
def test_what_is_too_old_begins_anew(
    server: ApiServer, watch: Callable[[], Iterator[set[str]]], expired: list[bytes] | Answered
) -> None:
    server.watching = [[a_change("ADDED", 90, ONE)], expired, [a_change("ADDED", 90, TWO)]]
    stream = watch()  # a stream that nothing refers to ends
    told(stream, ONE, TWO)
    assert begins(server, 3) == [None, "100", None]


@pytest.mark.parametrize(
    "trouble",
    [[BROKEN], [b"<html>"], [b'{"type":"ADDED","object":7}'], Answered(500, "InternalError", "no"), Answered(403)],
)
def test_any_other_trouble_goes_on_where_it_was(
    server: ApiServer, watch: Callable[[], Iterator[set[str]]], trouble: list[bytes] | Answered
) -> None:
    server.watching = [[a_change("ADDED", 90, ONE)], trouble, [a_change("MODIFIED", 130, TWO)]]
    stream = watch()  # a stream that nothing refers to ends
    told(stream, ONE, TWO)
    assert begins(server, 3) == [None, "100", "100"]


def test_a_watch_that_is_refused_is_told_until_it_is_not(
    server: ApiServer, watch: Callable[[], Iterator[set[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "LONGEST_WAIT", 0.1)
    server.watching = [Answered(403, "Forbidden", "jobs is forbidden") for _ in range(1000)]
    stream = watch()

    def refused() -> bool:
        try:
            return bool(next(stream))
        except TemporaryError as error:
            return "jobs is forbidden" in error.message

    until(refused, "the refusal to be told")
    with pytest.raises(TemporaryError):
        next(stream)
    server.watching = [[a_change("ADDED", 90, ONE)]]
    told(stream, ONE)
    assert next(stream) == set()


def test_trouble_is_over_as_soon_as_a_stream_begins(
    server: ApiServer, watch: Callable[[], Iterator[set[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing changes a stream says nothing: the watcher was not ready until it ended."""
    monkeypatch.setattr(changes, "LONGEST_WAIT", 0.1)
    over = threading.Event()
    server.watching = [Answered(500, "InternalError", "no"), over]
    stream = watch()
    try:
        until(lambda: len(streams(server)) == 2, "a stream that begins")
        until(lambda: is_well(stream), "the trouble to be over")
        assert len(streams(server)) == 2, "it was, when the stream ended"
    finally:
        over.set()


def is_well(stream: Iterator[set[str]]) -> bool:
    try:
        next(stream)
    except TemporaryError:
        return False
    return True


def test_a_restored_server_is_followed_from_its_new_beginning(
    server: ApiServer, watch: Callable[[], Iterator[set[str]]]
) -> None:
    def restored() -> list[bytes]:
        server.version = 70
        return [a_change("MODIFIED", 99, ONE)]

    server.watching = [restored, [a_change("ADDED", 60, TWO)], []]
    stream = watch()  # a stream that nothing refers to ends
    told(stream, ONE, TWO)
    assert begins(server, 3) == [None, None, "70"]


def test_a_half_open_connection_is_given_up(
    server: ApiServer, watch: Callable[[], Iterator[set[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "SILENCE_SECONDS", 0.3)
    silence = threading.Event()
    server.faults = [Fault("GET", "watch", hang=silence)]
    server.watching = [[a_change("ADDED", 90, ONE)]]
    try:
        told(watch(), ONE)
    finally:
        silence.set()


def test_a_reader_that_died_is_replaced(
    server: ApiServer, watch: Callable[[], Iterator[set[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    died = threading.Event()
    read = changes._Stream._read

    def dies_once(self: changes._Stream, line: bytes) -> None:
        if not died.is_set():
            died.set()
            raise RuntimeError("a bug")
        read(self, line)

    monkeypatch.setattr(changes._Stream, "_read", dies_once)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    server.watching = [[a_change("ADDED", 90, ONE)], [a_change("ADDED", 90, ONE)]]
    told(watch(), ONE)
    assert died.is_set()


def test_a_version_of_thousands_of_digits_is_no_version() -> None:
    """Python refuses to read so many, and the thread that follows changes would die of it."""
    assert changes._version_number("9" * 5_000) == changes._version_number("nonsense") < changes._version_number("1")
