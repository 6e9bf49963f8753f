"""A reaction to the former end of a reopened run was left out, but its share of the state went on record with the
later reactions of the page, and again with the next reaction of the same object."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.manager_schema import managers
from crawler_lifecycle.flows.model.requests import ItemFilter
from crawler_lifecycle.flows.model.turns import Counts, Effects, Reaction
from crawler_lifecycle.model.manager_items import Job, Verdict
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.states import RunStatus
from tests.hosts.stages import PATIENCE, Stage, staged
from tests.kit.data.databases import copy_of
from tests.kit.data.managers import Managed, managed, reopened

pytestmark = pytest.mark.regression(
    "The state of a reaction that was left out was stored with later reactions, and then a second time"
)


@pytest.fixture
def stage(sqlite_template: Path, tmp_path: Path) -> Iterator[Stage]:
    database = Database(copy_of(sqlite_template, tmp_path))
    yield staged(database, tmp_path, "Counting")
    database.close()


@pytest.fixture
def flow(database: Database) -> Managed:
    """Three crawls that have failed, in the order of their numbers."""
    flow = managed(database)
    flow.offer("a", "b", "c", read=3)
    for number in (1, 2, 3):
        flow.ended_run(flow.started(number), RunStatus.FAILED)
    return flow


def reaction(job: Job, **effects: object) -> Reaction:
    given = Effects.model_validate(effects)
    return Reaction(number=job.number, attempt=job.attempt, ended_at=job.ended_at, verdict=Verdict.BAD, effects=given)


def test_the_page_ends_before_an_end_that_was_taken_back(flow: Managed) -> None:
    jobs = flow.ended()
    page = [reaction(job, state={"failed": job.number}, stats={"ends": 1}) for job in jobs]
    assert jobs[1].run_id is not None
    reopened(flow, flow.store.runs.get(jobs[1].run_id))
    assert flow.managers.react(flow.mine, page) == 1
    begun = flow.begun()
    assert (begun.state, begun.stats["ends"]) == ({"failed": 1}, 1)
    assert [job.number for job in flow.ended()] == [3], "the third end gets a further reaction"
    assert flow.managers.counts(flow.mine) == Counts(failed=1, running=2)


def test_counts_of_failures_stay_if_a_reaction_was_left_out(flow: Managed) -> None:
    """The counts are those behind all reactions of the page."""
    page = [reaction(job) for job in flow.ended()]
    flow.managers.react(flow.mine, [], {"failures": {"all": 19}, "at": 1.0})
    run_id = flow.ended()[1].run_id
    assert run_id is not None
    reopened(flow, flow.store.runs.get(run_id))
    assert flow.managers.react(flow.mine, page, {}) == 1
    assert flow.begun().setbacks == {"failures": {"all": 19}, "at": 1.0}


def test_a_repeated_page_is_on_record(flow: Managed) -> None:
    page = [reaction(job, stats={"ends": 1}) for job in flow.ended()]
    assert [flow.managers.react(flow.mine, page), flow.managers.react(flow.mine, page)] == [3, 3]
    assert flow.begun().stats["ends"] == 3


def run_of(stage: Stage, number: int) -> RunRecord:
    (item,) = stage.flow.store.manager_doors.items(stage.flow.id, ItemFilter(numbers=(number,)), limit=1)
    assert item.run_id is not None
    return stage.flow.store.runs.get(item.run_id)


@pytest.mark.long
async def test_the_object_is_made_anew_without_the_share(stage: Stage) -> None:
    """A run is reopened while the hook for its end is under way, and the hook has changed the state."""
    hook = stage.folder / "in the hook"
    async with stage.hosted() as running:
        await stage.started(3)
        (stage.folder / "waits").touch()
        await asyncio.to_thread(stage.end_runs, RunStatus.FAILED)
        await stage.until(hook.exists)
        run = await asyncio.to_thread(run_of, stage, int(hook.read_text()))
        await asyncio.to_thread(reopened, stage.flow, run)
        (stage.folder / "waits").unlink()
        await stage.until(lambda: stage.counts.failed == 2)
        await asyncio.to_thread(stage.end_runs, RunStatus.FAILED)
        await asyncio.wait_for(running, PATIENCE)
    with stage.database.read() as connection:
        assert connection.execute(select(managers.c.state)).scalar_one() == {"ends": 3}
    assert stage.counts == Counts(failed=3)
    assert (len(stage.pids()), stage.setbacks) == (2, {}), "a further object, and nobody is to blame"
