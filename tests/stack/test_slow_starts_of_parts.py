import asyncio
import os
import sys
from pathlib import Path

import pytest

from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.stack import child as module
from crawler_lifecycle.stack.child import StackChild
from crawler_lifecycle.stack.plan import StackPart

pytestmark = pytest.mark.regression(
    "A part of the embedded stack that was not ready after 30 s counted as failed, also on a busy machine"
)

BUSY = [sys.executable, "-c", "import sys; sys.stdin.read(); import signal; signal.pause()"]


async def test_a_part_that_lives_is_awaited_for_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLOW_SECONDS", 0.0)
    lines: list[str] = []
    child = StackChild(StackPart("scheduler", BUSY), dict(os.environ), tmp_path / "log", lines.append, lambda: None)

    async def probe() -> None:
        if not lines:
            raise NotReady("it does not listen")

    await child.start(0)
    try:
        async with asyncio.timeout(20):
            await child.wait_ready(probe)
    finally:
        child.kill()
        await child.stop()
    assert lines == ["scheduler is not ready after 0 s (it does not listen); the start continues"]
    assert module.START_PATIENCE > 100


async def test_a_part_that_ended_is_awaited_no_longer(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit(3)"]
    child = StackChild(StackPart("scheduler", command), dict(os.environ), tmp_path / "log", print, lambda: None)

    async def probe() -> None:
        raise NotReady("it does not listen")

    await child.start(0)
    with pytest.raises(NotReady, match="scheduler ended with status 3"):
        async with asyncio.timeout(20):
            await child.wait_ready(probe)
