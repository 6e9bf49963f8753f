"""A manager that closed while Temporal was away lost its starts at the host's end, and the audit did not see them.
A retry during a stop turned the stop into a run, and every crawl that started was stopped. Items that were added during
`on_close` were cancelled. A manager that a failure paused closed with ends without a reaction."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from crawler_lifecycle.base.pacing import Backoff
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows.model.requests import AddItems, RetryItems
from crawler_lifecycle.flows.model.turns import Counts
from crawler_lifecycle.hosts.managers import crawls, process
from crawler_lifecycle.model.manager_items import ItemState
from crawler_lifecycle.model.states import RunStatus
from tests.hosts.stages import PATIENCE, Stage, staged
from tests.kit.data.databases import copy_of
from tests.kit.data.managers import added
from tests.managers.authors import Shops
from tests.managers.play import play_of

pytestmark = pytest.mark.regression(
    "A manager that closed while Temporal was away lost its starts at the host's end, and the audit did not see them"
)

AT_ONCE = timedelta(seconds=0.1)


@pytest.fixture
def make(sqlite_template: Path, tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    database = Database(copy_of(sqlite_template, tmp_path))
    yield partial(staged, database, tmp_path)
    database.close()


@pytest.mark.long
async def test_the_starts_of_a_closed_manager_outlive_its_host(make: Callable[..., Stage]) -> None:
    stage = make("Shops", "--loop-mode", "0")
    stage.temporal.is_away = True
    async with stage.hosted() as running:
        await stage.until(lambda: "closed" in stage.flow.events)
    with pytest.raises(Exception, match="the host ends"):
        await asyncio.wait_for(running, PATIENCE)
    assert not stage.temporal.started
    stage.temporal.is_away = False
    async with stage.hosted() as running:
        await asyncio.wait_for(running, PATIENCE)
    assert len(stage.temporal.started) == 3
    assert (await stage.result())["counts"]["running"] == 3


@pytest.mark.long
async def test_a_retry_during_a_stop_starts_nothing_within_the_stop(
    make: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crawls, "STOP_PAUSES", Backoff(AT_ONCE, AT_ONCE))
    stage = make("Shops", "--max-running-jobs", "1")
    async with stage.hosted() as running:
        await stage.started(1)
        await asyncio.to_thread(stage.end_runs, RunStatus.FAILED)
        await stage.started(2)
        await asyncio.to_thread(stage.flow.cancel)
        await stage.until(lambda: len(stage.temporal.stopped) == 1)
        await asyncio.to_thread(stage.flow.store.manager_doors.retry_items, stage.flow.id, RetryItems())
        await asyncio.to_thread(stage.end_runs, RunStatus.FAILED)
        await asyncio.wait_for(running, PATIENCE)
    assert len(stage.temporal.started) == 2
    assert stage.counts == Counts(waiting=1, failed=1)


@pytest.mark.long
async def test_a_drain_waits_for_the_reactions_of_a_failing_manager(make: Callable[..., Stage]) -> None:
    stage = make("FaultyCycle")
    async with stage.hosted(manager_tries=1) as running:
        await failing(stage)
        await asyncio.to_thread(stage.flow.hold, "drain")
        await asyncio.to_thread(stage.end_runs)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(running), 2)
        (stage.folder / "always").unlink()
        await asyncio.to_thread(stage.flow.hold, "run")
        await asyncio.wait_for(running, PATIENCE)
    assert stage.counts == Counts(completed=3)


async def test_a_stop_of_a_failing_manager_settles_its_ends(make: Callable[..., Stage]) -> None:
    stage = make("FaultyCycle")
    async with stage.hosted(manager_tries=1) as running:
        await failing(stage)
        await asyncio.to_thread(stage.flow.cancel)
        await asyncio.to_thread(stage.end_runs, RunStatus.FAILED)
        await asyncio.wait_for(running, PATIENCE)
    assert stage.counts == Counts(completed=1, failed=2)


async def failing(stage: Stage) -> None:
    """Let a failure pause the manager after one of three ends."""
    await stage.started(3)
    (stage.folder / "always").touch()
    await asyncio.to_thread(stage.end_one)
    await stage.until(lambda: "failing" in stage.flow.events)


def test_the_process_sees_no_variable_of_ours_in_small_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("crawler_database__url", "secret")
    monkeypatch.setenv("own_database_url", "kept")
    variables = process._without_ours()
    assert ("crawler_database__url" in variables, variables["own_database_url"]) == (False, "kept")


def test_items_that_are_added_during_the_close_are_started() -> None:
    closes = []

    class AddedTo(Shops):
        names = "a"

        def on_close(self) -> None:
            closes.append(self.is_closed())
            self.stats.inc_value("closes")
            doors, items = play.kit.managed.store.manager_doors, (added("late", None),)
            doors.add_items(play.kit.managed.id, AddItems(key="once", items=items))

    play = play_of(AddedTo)
    assert play.kit.until_closed() == "finished"
    assert [item.state for item in play.kit.items] == [ItemState.COMPLETED] * 2
    assert closes == [False, False]
    assert play.kit.stats["closes"] == 2
