"""One stream of a log serves everybody who follows it, and is not missed when it ends."""

import tempfile
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from crawler_lifecycle.adapters.kubernetes.api import ApiFailed
from crawler_lifecycle.adapters.kubernetes.mirrors import MOST, Mirrors
from crawler_lifecycle.ports import LogChunk


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_it_is_read_from_any_byte_on_until_it_ends() -> None:
    mirrors, more, end = Mirrors(), threading.Event(), threading.Event()

    def stream() -> Generator[bytes]:
        yield "one ï".encode()[:-1]
        more.wait(60)
        yield "ï\n".encode()[1:]
        end.wait(60)

    mirrors.begin("pod", stream)
    until(lambda: mirrors.read("pod", 0) == LogChunk("one ", 4, ended=False))
    assert mirrors.read("pod", 4) == LogChunk("", 4, ended=False), "half a character waits for its other half"
    assert mirrors.read("pod", 99) == LogChunk("", 99, ended=False), "it has not come so far yet"
    assert mirrors.read("pod", -3) is mirrors.read("other", 0) is None
    more.set()
    until(lambda: mirrors.read("pod", 4) == LogChunk("ï\n", 7, ended=False))
    end.set()
    until(lambda: mirrors.read("pod", 0) is None)


def test_one_that_fails_is_begun_anew() -> None:
    mirrors, begun, end = Mirrors(), list[int](), threading.Event()

    def stream() -> Generator[bytes]:
        begun.append(len(begun))
        if len(begun) == 1:
            raise ApiFailed("the node is away")
        yield b"here"
        end.wait(60)

    mirrors.begin("pod", stream)
    until(lambda: mirrors.read("pod", 0) is None)
    mirrors.begin("pod", stream)
    until(lambda: mirrors.read("pod", 0) == LogChunk("here", 4, ended=False))
    mirrors.begin("pod", stream)
    end.set()
    assert begun == [0, 1]


def test_there_are_not_too_many() -> None:
    mirrors, end, begun = Mirrors(), threading.Event(), list[int]()

    def stream() -> Generator[bytes]:
        begun.append(1)
        yield b"here"
        end.wait(60)

    for number in range(MOST + 3):
        mirrors.begin(str(number), stream)
    until(lambda: len(begun) == MOST)
    assert mirrors.read(str(MOST), 0) is None
    end.set()


def test_nothing_of_it_is_left_when_its_process_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What crawls print may be secret, and a killed process deletes nothing."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    mirrors, end = Mirrors(), threading.Event()

    def stream() -> Generator[bytes]:
        yield b"here"
        end.wait(60)

    mirrors.begin("pod", stream)
    until(lambda: mirrors.read("pod", 0) == LogChunk("here", 4, ended=False))
    assert list(tmp_path.iterdir()) == []
    end.set()


def test_where_there_is_no_room_for_one_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    mirrors = Mirrors()

    def stream() -> Generator[bytes]:
        yield b"here"

    mirrors.begin("pod", stream)
    assert mirrors.read("pod", 0) is None
