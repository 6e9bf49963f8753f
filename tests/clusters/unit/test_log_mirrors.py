"""One stream of a log serves everybody who follows it, and is not missed when it ends."""

import tempfile
import threading
from collections.abc import Generator
from pathlib import Path

import pytest

from crawler_lifecycle.clusters.kubernetes.http.answers import ApiFailed
from crawler_lifecycle.clusters.kubernetes.logs.files import MOST_MIRRORS, Mirrors, Position
from crawler_lifecycle.clusters.ports import LogChunk
from tests.kit.waiting import until

BEGINNING = Position(0)


def test_it_is_read_on_until_it_ends() -> None:
    mirrors, more, end = Mirrors(), threading.Event(), threading.Event()

    def stream() -> Generator[bytes]:
        yield "one ï".encode()[:-1]
        more.wait(60)
        yield "ï\n".encode()[1:]
        end.wait(60)

    mirrors.begin("pod", BEGINNING, stream)
    until(lambda: mirrors.read("pod", 0) == LogChunk("one ", 4, ended=False))
    assert mirrors.read("pod", 4) == LogChunk("", 4, ended=False), "half a character waits for its other half"
    assert mirrors.read("pod", -3) is mirrors.read("other", 0) is None
    more.set()
    until(lambda: mirrors.read("pod", 4) == LogChunk("ï\n", 7, ended=False))
    end.set()
    until(lambda: mirrors.read("pod", 0) is None)


def test_only_where_somebody_is_can_be_gone_on_from() -> None:
    """Who has fetched the log may count the bytes of another file."""
    mirrors, more, end = Mirrors(), threading.Event(), threading.Event()

    def stream() -> Generator[bytes]:
        yield b"one\n"
        more.wait(60)
        yield b"two\nthree\n"
        end.wait(60)

    mirrors.begin("pod", Position(8, b"two\n"), stream)
    assert mirrors.read("pod", 8) == LogChunk("", 8, ended=False), "it has not come so far yet"
    assert mirrors.read("pod", 4) is None
    more.set()
    until(lambda: mirrors.read("pod", 8) == LogChunk("three\n", 14, ended=False))
    assert mirrors.read("pod", 14) == LogChunk("", 14, ended=False)
    assert mirrors.read("pod", 9) is mirrors.read("pod", 99) is None
    for place in (Position(4, b"zwo\n"), Position(9, b"three\n"), Position(99, b"more\n"), Position(4, b"one\n")):
        assert mirrors.read("pod", place.offset) is None
        mirrors.begin("pod", place, stream)
    assert mirrors.read("pod", 4) == LogChunk("two\nthree\n", 14, ended=False)
    assert mirrors.read("pod", 9) is mirrors.read("pod", 99) is None
    end.set()


def test_one_of_another_file_than_was_fetched_is_none() -> None:
    """The node began a new one just before."""
    mirrors, end = Mirrors(), threading.Event()

    def stream() -> Generator[bytes]:
        yield b"something else\n"
        end.wait(60)

    mirrors.begin("pod", Position(8, b"two\n"), stream)
    until(lambda: mirrors.read("pod", 8) is None)
    end.set()


def test_one_that_does_not_catch_up_is_waited_for_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawler_lifecycle.clusters.kubernetes.logs.files.CATCH_UP_SECONDS", -1)
    mirrors, end = Mirrors(), threading.Event()

    def stream() -> Generator[bytes]:
        yield b"one\n"
        end.wait(60)

    mirrors.begin("pod", Position(8, b"two\n"), stream)
    assert mirrors.read("pod", 8) is None
    end.set()


def test_places_that_nobody_comes_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawler_lifecycle.clusters.kubernetes.logs.files.MOST_OFFSETS", 2)
    mirrors, end = Mirrors(), threading.Event()

    def stream() -> Generator[bytes]:
        yield b"one\n"
        end.wait(60)

    mirrors.begin("pod", BEGINNING, stream)
    until(lambda: mirrors.read("pod", 0) == LogChunk("one\n", 4, ended=False))
    mirrors.begin("pod", Position(2, b"on"), stream)
    assert mirrors.read("pod", 0) is None
    assert mirrors.read("pod", 2) == LogChunk("e\n", 4, ended=False)
    end.set()


def test_one_that_fails_is_begun_anew() -> None:
    mirrors, begun, end = Mirrors(), list[int](), threading.Event()

    def stream() -> Generator[bytes]:
        begun.append(len(begun))
        if len(begun) == 1:
            raise ApiFailed("the node is away")
        yield b"here"
        end.wait(60)

    mirrors.begin("pod", BEGINNING, stream)
    until(lambda: mirrors.read("pod", 0) is None)
    mirrors.begin("pod", BEGINNING, stream)
    until(lambda: mirrors.read("pod", 0) == LogChunk("here", 4, ended=False))
    mirrors.begin("pod", BEGINNING, stream)
    end.set()
    assert begun == [0, 1]


def test_there_are_not_too_many() -> None:
    mirrors, end, begun = Mirrors(), threading.Event(), list[int]()

    def stream() -> Generator[bytes]:
        begun.append(1)
        yield b"here"
        end.wait(60)

    for number in range(MOST_MIRRORS + 3):
        mirrors.begin(str(number), BEGINNING, stream)
    until(lambda: len(begun) == MOST_MIRRORS)
    assert mirrors.read(str(MOST_MIRRORS), 0) is None
    end.set()


def test_nothing_of_it_is_left_when_its_process_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What crawls print may be secret, and a killed process deletes nothing."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    mirrors, end = Mirrors(), threading.Event()

    def stream() -> Generator[bytes]:
        yield b"here"
        end.wait(60)

    mirrors.begin("pod", BEGINNING, stream)
    until(lambda: mirrors.read("pod", 0) == LogChunk("here", 4, ended=False))
    assert list(tmp_path.iterdir()) == []
    end.set()


def test_where_there_is_no_room_for_one_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    mirrors = Mirrors()

    def stream() -> Generator[bytes]:
        yield b"here"

    mirrors.begin("pod", BEGINNING, stream)
    assert mirrors.read("pod", 0) is None
