import os
import time
from pathlib import Path
from typing import Any

import pytest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.hosts.managers import hosting
from crawler_lifecycle.hosts.managers.process import ObjectProcess
from tests.hosts.stages import staged

pytestmark = pytest.mark.regression(
    "A host that left a manager while the object's process was being made left the process behind for its whole limit"
)

MAKING_SECONDS = 1.0  # longer than an object has time to leave by itself


class SlowProcess(ObjectProcess):
    """A process on a machine on which processes take long to begin."""

    pids: list[int] = []
    making = 0

    def __init__(self, *arguments: Any) -> None:
        SlowProcess.making += 1
        time.sleep(MAKING_SECONDS)
        super().__init__(*arguments)
        self.pids.append(self._child._process.pid)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_process_in_the_making_is_not_left_behind(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosting, "ObjectProcess", SlowProcess)
    stage = staged(database, tmp_path, "SlowlyMade")
    async with stage.hosted():
        await stage.until(lambda: SlowProcess.making == 1)
        left_at = time.monotonic()
    assert time.monotonic() - left_at < MAKING_SECONDS + 3, "a second behind the making, on a slow machine"
    (pid,) = SlowProcess.pids
    await stage.until(lambda: not is_alive(pid))
    assert not (tmp_path / "begun").exists()


@pytest.mark.long
async def test_an_object_in_the_making_is_not_left_behind(database: Database, tmp_path: Path) -> None:
    stage = staged(database, tmp_path, "SlowlyMade")
    async with stage.hosted():
        await stage.until((tmp_path / "begun").exists)
        left_at = time.monotonic()
    assert time.monotonic() - left_at < 3, "a second, on a slow machine"
