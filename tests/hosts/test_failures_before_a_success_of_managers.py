import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows.model.turns import NO_EFFECTS, Page
from crawler_lifecycle.hosts.managers.setbacks import ALL_JOBS, Setbacks
from crawler_lifecycle.model.manager_items import CodeProblem
from tests.hosts.stages import Stage, staged
from tests.kit.data.managers import managed

pytestmark = pytest.mark.regression(
    "A manager's next host counted failures from before the last success, and paused the manager after one failure"
)

COUNTS = {"failures": {"on_start": 2}, "at": 1.0}
NO_COUNTS: dict[str, Any] = {"failures": {}, "at": 1.0}


@pytest.fixture
def stage(database: Database, tmp_path: object) -> Callable[..., Stage]:
    return lambda name, *arguments: staged(database, tmp_path, name, *arguments)  # type: ignore[arg-type]


def failures(stage: Stage, phase: str) -> int:
    return sum(f"{phase} failed: " in line for line in stage.lines)


@pytest.mark.long
async def test_a_cycle_in_order_clears_the_failures_before(stage: Callable[..., Stage]) -> None:
    shops = stage("FaultyCycle")
    always = shops.folder / "always"
    always.touch()
    async with shops.hosted(manager_tries=3):
        await shops.until(lambda: failures(shops, "base_loop_tasks") == 2)
        always.unlink()
        await shops.started(3)
        await shops.until(lambda: not shops.setbacks)  # the cycle's end follows its starts
    always.touch()
    async with shops.hosted(manager_tries=3):
        await shops.until(lambda: "failing" in shops.flow.events)
    assert failures(shops, "base_loop_tasks") == 4, "the second host has counted three failures of its own"


@pytest.mark.long
async def test_a_reaction_clears_its_jobs_failures_in_its_own_transaction(stage: Callable[..., Stage]) -> None:
    shops = stage("Faulty")
    always = shops.folder / "always"
    always.touch()
    async with shops.hosted(manager_tries=9):
        await shops.started(3)
        await asyncio.to_thread(shops.end_one)
        await shops.until(lambda: failures(shops, "finished_ok_hook") == 2)
        assert sorted(shops.setbacks.values()) == [2, 2], "of the job, and of all jobs"
        always.unlink()
        await shops.until(lambda: shops.counts.completed == 1)
        assert shops.setbacks == {}


def test_each_kind_of_progress_carries_the_counts(database: Database) -> None:
    flow = managed(database)
    flow.managers.commit(flow.mine, NO_EFFECTS, "1", COUNTS)
    flow.managers.commit(flow.mine, NO_EFFECTS, "2")
    assert flow.begun().setbacks == COUNTS, "a commit without counts leaves the record alone"
    flow.managers.offer(flow.mine, Page(read=0), NO_COUNTS)
    assert flow.begun().setbacks == NO_COUNTS
    flow.managers.commit(flow.mine, NO_EFFECTS, "3", COUNTS)
    flow.managers.react(flow.mine, [], NO_COUNTS)
    assert flow.begun().setbacks == NO_COUNTS
    flow.managers.commit(flow.mine, NO_EFFECTS, "4", COUNTS)
    flow.managers.close(flow.mine, "finished", NO_EFFECTS, 0)
    assert flow.begun().setbacks == {}, "a retry of the manager begins without the failures"


def test_counts_are_written_only_if_the_record_has_others() -> None:
    setbacks = Setbacks(5)
    assert setbacks.to_store(["base_loop_tasks"]) is None
    setbacks.note(CodeProblem(phase="bad_outcome_hook", job="job-1", error=""), holds_job=True)
    setbacks.note(CodeProblem(phase="on_start", error=""), holds_job=False)
    record = setbacks.to_store(())
    assert record is not None
    assert record["failures"] == {ALL_JOBS: 1, "job-1": 1, "on_start": 1}
    setbacks.note_stored()
    assert setbacks.to_store(()) is None
    cleared = setbacks.to_store([ALL_JOBS, "job-1"])
    assert cleared is not None
    assert (cleared["failures"], cleared["at"]) == ({"on_start": 1}, record["at"])
