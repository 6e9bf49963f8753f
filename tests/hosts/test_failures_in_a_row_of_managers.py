import asyncio
import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows.model.turns import GENERATOR_CHANGED
from crawler_lifecycle.hosts.managers import setbacks
from crawler_lifecycle.hosts.managers.setbacks import Setbacks
from crawler_lifecycle.managers import PeriodicCrawlManager
from crawler_lifecycle.model.manager_items import CodeProblem
from crawler_lifecycle.testing import ManagerPlay
from tests.hosts.stages import Stage, staged

pytestmark = pytest.mark.regression(
    "Failures of a manager's code: a host's end forgot their number, and a changed generator was read five times"
)

PROBLEM = CodeProblem(phase="base_loop_tasks", error="ValueError: no")


@pytest.fixture
def stage(database: Database, tmp_path: object) -> Callable[..., Stage]:
    return lambda name, *arguments: staged(database, tmp_path, name, *arguments)  # type: ignore[arg-type]


def failures(stage: Stage) -> int:
    return sum("finished_ok_hook failed: " in line for line in stage.lines)


@pytest.mark.long
async def test_another_host_goes_on_with_the_number_of_failures(stage: Callable[..., Stage]) -> None:
    shops = stage("Faulty")
    (shops.folder / "always").touch()
    async with shops.hosted(manager_tries=3):
        await shops.started(3)
        await asyncio.to_thread(shops.end_one)
        await shops.until(lambda: failures(shops) == 2)
    async with shops.hosted(manager_tries=3):
        await shops.until(lambda: "failing" in shops.flow.events)
    assert failures(shops) == 2, "the third failure pauses the manager, and has the line of the pause"
    assert any("finished_ok_hook failed 3 times" in line for line in shops.lines)


@pytest.mark.long
async def test_a_changed_generator_is_told_at_once(stage: Callable[..., Stage]) -> None:
    shops = stage("Changing")
    async with shops.hosted():
        await shops.started(1)
    (shops.folder / "other").touch()
    async with shops.hosted():
        await asyncio.to_thread(shops.end_runs)
        await shops.until(lambda: "failing" in shops.flow.events)
    assert any(f"{GENERATOR_CHANGED} failed 1 time: " in line for line in shops.lines)
    assert len(shops.pids()) == 2


def test_counts_on_record_go_on_while_they_are_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    former = Setbacks(3)
    assert not former.is_too_much(former.note(PROBLEM, holds_job=False))
    record = former.to_store(())
    assert record is not None
    for age, number in ((0.0, 2), (setbacks.FRESH_SECONDS, 1)):
        now = time.time() + age
        with monkeypatch.context() as patch:
            patch.setattr(setbacks, "time", lambda now=now: now)
            another = Setbacks(3)
            another.take_over(record)
        assert another.note(PROBLEM, holds_job=False).failures == number


def test_a_periodic_manager_keeps_its_pause_over_a_death() -> None:
    class Again(PeriodicCrawlManager):
        name = "again"
        spider = "books"
        loop_mode = 60

    play = ManagerPlay(Again)
    play.cycle()
    for pause in (2, 4, 8):
        play.end(outcome="failed")
        play.cycle()
        play.skip(seconds=pause)
    starts = len(play.started)
    play.end(outcome="failed")
    play.cycle()
    play.replace()
    play.cycle()
    assert len(play.started) == starts, "the pause after four failures at once goes on"
    play.managed.clock.now += timedelta(seconds=16)
    play.cycle()
    assert len(play.started) == starts + 1
