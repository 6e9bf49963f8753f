"""Failures around a hosted manager: no worker, no database in any phase, a second activity, and early stops."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from time import monotonic
from typing import Any

import pytest

from crawler_lifecycle.base.pacing import Backoff
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.flows.model.turns import Counts
from crawler_lifecycle.hosts.managers import crawls, desk
from crawler_lifecycle.managers.ports import ManagerLedger
from crawler_lifecycle.model.flow_states import MemberState
from crawler_lifecycle.model.states import RunStatus
from tests.crash.ports import methods_of
from tests.hosts.stages import PATIENCE, Stage

Staged = Callable[..., Stage]
AT_ONCE = timedelta(seconds=0.1)


class Outage:
    """The database is away for the manager's ledger while `is_away`. `refused`: calls that have failed."""

    def __init__(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_away = False
        self.refused: set[str] = set()
        ledger: Any = stage.flow.store.managers
        for name in methods_of(ManagerLedger):
            monkeypatch.setattr(ledger, name, self._failing(name, getattr(ledger, name)))

    def _failing(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def act(*arguments: Any, **options: Any) -> Any:
            if self.is_away:
                self.refused.add(name)
                raise TemporaryError("the database is away")
            return call(*arguments, **options)

        return act

    async def pass_by(self, stage: Stage) -> None:
        """Keep the database away until calls have failed."""
        self.refused.clear()
        self.is_away = True
        await stage.until(lambda: bool(self.refused))
        await asyncio.sleep(0.3)  # further calls fail meanwhile
        self.is_away = False


async def test_the_database_is_away_in_every_phase(staged: Staged, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "PAUSES", (0.05,))
    stage = staged("Shops", "--max-running-jobs", "2")
    outage = Outage(stage, monkeypatch)
    outage.is_away = True
    async with stage.hosted() as running:
        await stage.until(lambda: "begin" in outage.refused)
        outage.is_away = False
        await stage.started(1)
        await outage.pass_by(stage)  # in the starts, or in the sleep behind them
        await stage.started(2)
        outage.is_away = True
        await asyncio.to_thread(stage.end_runs)
        await outage.pass_by(stage)  # before the reactions
        await stage.started(3)
        outage.is_away = True
        await asyncio.to_thread(stage.end_runs)
        await outage.pass_by(stage)  # before the close
        await asyncio.wait_for(running, PATIENCE)
    assert stage.counts == Counts(completed=3)
    assert len(stage.temporal.started) == len(set(stage.temporal.started)) == 3
    assert len(stage.pids()) == 1, "the object is not to blame"


@pytest.mark.long
async def test_ends_that_the_author_denies_wake_a_manager_ever_more_rarely(staged: Staged) -> None:
    stage = staged("Denies")
    cycles = stage.folder / "cycles"
    async with stage.hosted() as running:
        await stage.started(3)
        await asyncio.to_thread(stage.end_runs)
        ended, before = monotonic(), cycles.stat().st_size
        await stage.until(lambda: cycles.stat().st_size >= before + 4)
        assert monotonic() - ended > 2.5, "pauses of 1 and 2 seconds"
        (stage.folder / "knows").touch()
        await asyncio.wait_for(running, PATIENCE)
    assert stage.counts == Counts(completed=3)


@pytest.mark.long
async def test_a_start_waits_for_a_worker(staged: Staged, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crawls, "CHECK_SECONDS", 0.2)
    stage = staged("Shops")
    stage.temporal.has_worker = False
    async with stage.hosted() as running:
        await stage.started(3)
        await asyncio.sleep(1)  # several looks at the open workflows without a run
        assert stage.counts == Counts(running=3)
        assert len(stage.temporal.started) == 3
        stage.temporal.has_worker = True
        await stage.temporal.work()
        await asyncio.to_thread(stage.end_runs)
        await asyncio.wait_for(running, PATIENCE)
    assert stage.counts == Counts(completed=3)


@pytest.mark.long
async def test_a_second_activity_waits_for_the_first(staged: Staged) -> None:
    stage = staged("Shops")
    async with stage.hosted() as first:
        await stage.started(3)
        second = stage.host()
        async with second.running():
            waiting = asyncio.create_task(stage.brought_on(second))
            await asyncio.sleep(3)  # longer than a claim lasts without its renewal
            assert len(stage.pids()) == 1
            await asyncio.to_thread(stage.end_runs)
            await asyncio.wait_for(first, PATIENCE)
            await asyncio.wait_for(waiting, PATIENCE)
    assert stage.counts == Counts(completed=3)
    assert (len(stage.pids()), len(stage.temporal.started)) == (1, 3)


@pytest.mark.parametrize("has_temporal", [True, False])
@pytest.mark.long
async def test_a_stop_before_the_runs_begin_reaches_every_crawl(
    staged: Staged, monkeypatch: pytest.MonkeyPatch, has_temporal: bool
) -> None:
    monkeypatch.setattr(crawls, "STOP_PAUSES", Backoff(AT_ONCE, AT_ONCE))
    stage = staged("Shops", "--max-running-jobs", "2")
    stage.temporal.is_away, stage.temporal.has_worker = not has_temporal, False
    async with stage.hosted() as running:
        await stage.until(lambda: stage.counts.running == 2)
        await asyncio.to_thread(stage.flow.cancel)
        await asyncio.sleep(0.5)  # requests to stop crawls that nobody can start
        stage.temporal.is_away, stage.temporal.has_worker = False, True
        await stage.until(lambda: len(stage.temporal.stopped) == 2)
        await stage.temporal.work()
        await asyncio.to_thread(stage.end_runs, RunStatus.FAILED)
        await asyncio.wait_for(running, PATIENCE)
    assert set(stage.temporal.stopped) == set(stage.temporal.started)
    assert stage.flow.row("manager").state is MemberState.CANCELLED
    counts = stage.counts
    assert (counts.running, counts.waiting, counts.failed) == (0, 0, 2)
