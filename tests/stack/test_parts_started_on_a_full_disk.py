"""A part of the stack that died while the disk was full was started again, but never found by anybody afterwards:
`stack.json` could not be written, and was not written when there was room again."""

import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.settings import stack_file
from crawler_lifecycle.stack.plan import Ports, StackPart, StackPlan
from crawler_lifecycle.stack.stack import Stack
from tests.kit.service.embedded import processes_of
from tests.kit.waiting import eventually
from tests.process.crawls import PATIENCE, end_all_of

pytestmark = [
    pytest.mark.regression("A part that was started again while the disk was full never appeared in `stack.json`"),
    pytest.mark.process,
]


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "state").mkdir()
    yield tmp_path / "state"
    end_all_of(tmp_path)


class Bare(Stack):
    """Only what is added."""

    async def _start(self) -> None:
        self._start_reaper()

    async def add(self, part: StackPart) -> None:
        (await self._start_child(part)).keep_running(self._ensure_reaper)


def test_a_full_disk_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`crawlctl up` ended with a traceback."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        with pytest.raises(NotReady, match=r"scheduler\.token cannot be written: No space left on device"):
            stack_file.make_token(tmp_path)
    assert stack_file.make_token(tmp_path) == (tmp_path / "scheduler.token").read_text()


@pytest.mark.long
async def test_it_is_found_as_soon_as_there_is_room(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    part = StackPart("sleeper", [sys.executable, "-c", "import time; time.sleep(1000)", str(state)])

    stack = Bare(StackPlan(state, Ports.free(), {}, "", ""), said.append)
    async with stack.running():
        await stack.add(part)
        (first,) = processes_of(state, _sleeps)
        with monkeypatch.context() as full:
            full.setattr(stack_file, "write", _no_room)
            first.kill()
            await eventually(
                lambda: [each.pid for each in processes_of(state, _sleeps)] not in ([], [first.pid]), patience=PATIENCE
            )
            await eventually(lambda: any("No space left" in line for line in said), patience=PATIENCE)
        (second,) = processes_of(state, _sleeps)
        await eventually(lambda: second.pid in _recorded(state), patience=PATIENCE)
    assert not any("cannot be started" in line for line in said)
    assert processes_of(state, _sleeps) == []


def _recorded(state: Path) -> set[int]:
    found = stack_file.read(state)
    return {each.pid for each in found.processes} if found else set()


def _no_room(*_: object) -> None:
    raise NotReady("stack.json cannot be written: No space left on device")


def _sleeps(process: psutil.Process) -> bool:
    return any("time.sleep" in word for word in process.cmdline())
