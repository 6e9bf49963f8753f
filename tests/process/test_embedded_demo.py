"""`crawlctl demo`: a crawl from start to finish, and nothing of it left, whenever it is ended."""

import asyncio
import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.kit.service.embedded import LINK, crawlctl, processes_of
from tests.kit.waiting import eventually

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for process in processes_of(tmp_path / "crawl-demo"):
        if process.pid != os.getpid():
            process.kill()


def leftovers(home: Path) -> list[psutil.Process]:
    return processes_of(home / "crawl-demo")


@pytest.mark.system
async def test_four_tasks_collect_the_whole_bookshop(home: Path) -> None:
    async with crawlctl(home, "demo", "--json") as command:
        assert await command.end() == 0, (home / "stderr.log").read_text()
    told = json.loads(command.output)
    assert (told["run"]["run"]["status"], told["items"]) == ("COMPLETED", 60)
    assert told["run"]["run"]["task_seconds"] > 0
    assert [task["status"] for task in told["run"]["tasks"]] == ["SUCCEEDED"] * 4
    kept = Path(told["results"])
    assert sorted(path.name for path in kept.iterdir()) == sorted(
        ["events.jsonl", "run.json", f"{told['run']['run']['run_uid']}.zip"]
    )
    assert {each["location"] for each in told["run"]["exports"]} <= {str(path) for path in kept.iterdir()}
    assert leftovers(home) == []
    assert list(home.glob("crawl-demo-*")) == []


@pytest.mark.system
async def test_a_demo_keeps_its_stack_only_if_asked(home: Path) -> None:
    """The demo printed a link, and the page was gone when one had read the link."""
    async with crawlctl(home, "demo", "--keep") as command:
        link = await command.wait_for(LINK)
        assert "60 items collected" in command.output
        assert "http" not in command.output[: command.output.index("60 items collected")]
        async with httpx.AsyncClient() as client:
            assert (await client.get(link.partition("#")[0])).status_code == 200
        assert await command.end(signal.SIGINT) == 0, command.output
    assert leftovers(home) == []
    async with crawlctl(home, "demo") as command:
        assert await command.end() == 0, command.output
    assert not re.search(LINK, command.output)
    next_steps = command.output[command.output.index("Next:") :]
    assert "crawlctl up" in next_steps
    assert "crawlctl run bookshop" in next_steps


@pytest.mark.system
@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("Starting Temporal", signal.SIGINT),
        ("They are up", signal.SIGTERM),
        ("PROCESSING", signal.SIGINT),
    ],
)
async def test_nothing_is_left_of_a_demo_that_is_interrupted(home: Path, moment: str, number: signal.Signals) -> None:
    async with crawlctl(home, "demo") as command:
        await command.wait_for(moment)
        if moment != "Starting Temporal":
            assert leftovers(home) != []
        status = await command.end(number)
    assert status == (130 if number is signal.SIGINT else 128 + number), command.output
    assert "the demo has ended and is removed" in command.output
    assert leftovers(home) == []
    assert list(home.glob("crawl-demo-*")) == []


@pytest.mark.system
@pytest.mark.parametrize("pause", [0.05, 0.4, 0.9, 1.6])
async def test_nothing_is_left_whatever_it_was_just_doing(home: Path, pause: float) -> None:
    async with crawlctl(home, "demo") as command:
        await asyncio.sleep(pause)  # any moment is as good as another: that is the point
        assert await command.end(signal.SIGINT) != 0
    assert leftovers(home) == []


@pytest.mark.system
@pytest.mark.parametrize("moment", ["Starting Temporal", "task 0 .*PENDING"])
async def test_nothing_is_left_of_a_demo_that_is_killed(home: Path, moment: str) -> None:
    async with crawlctl(home, "demo") as command:
        await command.wait_for(moment)
        await command.end(signal.SIGKILL)
        await eventually(lambda: not leftovers(home), patience=40)
