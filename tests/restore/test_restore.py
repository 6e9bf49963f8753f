"""A real stack loses its database, its Temporal, both, or its volume, and gets them back from a backup.

Since the backup some runs have ended, one was stopped, one got its next attempt, and twenty more were started. The
truth is what the jobs noted: after the restore everything that the database knows agrees with it, as after the soak,
and no job has run twice.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio

from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.audits import FindingKind
from crawler_lifecycle.model.records import ALL_RUNS
from crawler_lifecycle.model.requests import RunRequest, StopRequest
from crawler_lifecycle.model.retries import Retries
from tests.chaos.comparison import divergences, open_workflows
from tests.chaos.ground import Ground, ground
from tests.chaos.people import People
from tests.kit.data.databases import mariadb_is_installed, missing
from tests.kit.service.audits import audited
from tests.kit.waiting import eventually, eventually_async
from tests.process.crawls import PATIENCE
from tests.process.stops import command, until_closed
from tests.restore.backup import Backup

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]
CAPACITY = 60
LONGER = 240.0
RETRIES = Retries(infrastructure=5, pause_seconds=1)
NEW, ENDED, STOPPED = 20, 8, 4  # runs since the backup; the others live at the disaster
CODES = {"fails": 3, "reopened": 3}
# what an old copy of the database has forgotten, and what then differs from the truth first
FORGOTTEN = {
    "stopped": "run_ended of end 1 was told in different ways under one id",
    "reopened": "task 0 has a job of attempt 2, and its row is at 1",
}


@dataclass
class History:
    """Runs by what happens to them: before the backup, and after it."""

    ground: Ground
    people: People
    before: dict[str, Started] = field(default_factory=dict)
    since: dict[str, Started] = field(default_factory=dict)

    async def until_the_backup(self) -> None:
        names = ("over", "over too", "ends", "fails", "stopped", "lost", "alive", "reopened")
        self.before = await self._start(names, "before")
        await self._end("over", "over too", "reopened", of=self.before)

    async def until_the_disaster(self) -> None:
        await self._end("ends", "fails", of=self.before)
        await self._stop(self.before["stopped"])
        await self._retry(self.before["lost"])
        await self._reopen(self.before["reopened"])
        self.since = await self._start([f"run {number}" for number in range(NEW)], "since")
        await self._end(*[f"run {number}" for number in range(ENDED)], of=self.since)
        for number in range(ENDED, ENDED + STOPPED):
            await self._stop(self.since[f"run {number}"])

    def release_all(self) -> None:
        for run in self.all:
            self.people.release(run, [0])

    @property
    def all(self) -> list[Started]:
        return [*self.before.values(), *self.since.values()]

    async def _start(self, names: Sequence[str], word: str) -> dict[str, Started]:
        request = RunRequest(crawler="polite", grace_seconds=10, retries=RETRIES)
        started = await asyncio.gather(*(self.people.ask_for(f"{word} {name}", request) for name in names))
        runs = {name: run for name, run in zip(names, started, strict=True) if run}
        assert len(runs) == len(names), self.people.refused
        for run in runs.values():
            await self.ground.site.until_running(run, 1)
        return runs

    async def _end(self, *names: str, of: dict[str, Started]) -> None:
        for name in names:
            self.people.release(of[name], [CODES.get(name, 0)])
        for name in names:
            await self.ground.site.until_over(of[name])

    async def _stop(self, run: Started) -> None:
        await self.ground.site.control.runs.stop(run.run_id, StopRequest(actor="a person"))
        await self.ground.site.until_over(run)

    async def _reopen(self, run: Started) -> None:
        self.ground.site.hold(run, 0)
        await until_closed(self.ground.site, run.workflow_id)
        await self.ground.site.control.runs.resume(run.run_id, reopen=True)
        await eventually(lambda: (0, 2) in self.ground.site.jobs(run), patience=PATIENCE)

    async def _retry(self, run: Started) -> None:
        await self.ground.site.lose(run, 0)
        await self.ground.site.nudge(run)
        await eventually(lambda: (0, 2) in self.ground.site.jobs(run), patience=PATIENCE)


@pytest_asyncio.fixture(loop_scope="session")
async def history(tmp_path: Path) -> AsyncIterator[History]:
    if not mariadb_is_installed():
        missing("no mariadbd on this machine (Debian's package is mariadb-server)")
    async with ground(tmp_path / "restore", on_mariadb=True, capacity=CAPACITY) as running:
        yield History(running, People(running))


async def _restored(history: History, tmp_path: Path, *parts: Callable[[Backup], None]) -> set[str]:
    """The history, the disaster, the restore, and what the how-to says afterwards, until nothing is under way.

    Return the runs (uids) whose living jobs an audit has reported as unknown.
    """
    backup = Backup(history.ground, tmp_path / "backup")
    await history.until_the_backup()
    backup.make()
    await history.until_the_disaster()
    await history.ground.kill_everything()
    for part in parts:
        part(backup)
    await history.ground.start()
    await history.ground.until_whole()
    unknown = await _unknown_after_the_restore(history)
    history.release_all()
    await _until_quiet(history)
    return unknown


async def _unknown_after_the_restore(history: History) -> set[str]:
    """Audit with repair until two audits report the same unknown jobs."""
    earlier = None
    while True:
        await command(history.ground.site, "audit", "--repair")
        report = await audited(history.ground.site.control.audits)
        unknown = {finding.run_uid or "" for finding in report.findings if finding.kind is FindingKind.UNKNOWN_JOB}
        if unknown == earlier:
            return unknown
        earlier = unknown


async def _until_quiet(history: History) -> None:
    seen = [""]

    async def quiet() -> bool:
        await command(history.ground.site, "audit", "--repair")
        control = history.ground.site.control
        details = [control.runs.show(run.run_id) for run in control.runs.select(ALL_RUNS, limit=1000)]
        runs = [run.run.run_id for run in details if not run.run.status.is_over or not run.is_handed_over]
        workflows = await open_workflows(await control.engine.client())
        seen[0] = f"runs {runs} and workflows {workflows} are under way"
        return not runs and not workflows

    await eventually_async(quiet, "nothing to be under way", LONGER, pause=5.0, seen=lambda: seen[0])


def _known(history: History) -> list[Started]:
    uids = {run.run_uid for run in history.ground.site.control.runs.select(ALL_RUNS, limit=1000)}
    return [run for run in history.all if run.run_uid in uids]


def _jobs_that_ran_twice(history: History) -> Iterator[str]:
    for run in history.all:
        for key, job in history.ground.site.jobs(run).items():
            if job.began != 1 or job.beside:
                yield f"{run.run_id} {key}: {job}"


async def test_temporal_is_an_old_copy(history: History, tmp_path: Path) -> None:
    await _restored(history, tmp_path, Backup.restore_temporal)
    _assert_all_known_and_right(history)


async def test_the_volume_is_an_old_copy(history: History, tmp_path: Path) -> None:
    await _restored(history, tmp_path, Backup.restore_volume)
    _assert_all_known_and_right(history)


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([Backup.restore_database], id="the database"),
        pytest.param([Backup.restore_database, Backup.restore_temporal], id="both"),
    ],
)
async def test_the_database_is_an_old_copy(
    history: History, tmp_path: Path, parts: Sequence[Callable[[Backup], None]]
) -> None:
    unknown = await _restored(history, tmp_path, *parts)
    assert _known(history) == list(history.before.values()), "the runs since the backup"
    wrong = {name: problems for name, run in history.before.items() if (problems := divergences(history.ground, run))}
    assert wrong.keys() == FORGOTTEN.keys()
    assert {name: problems[0].partition(":")[0] for name, problems in wrong.items()} == FORGOTTEN
    assert list(_jobs_that_ran_twice(history)) == []
    alive = [run for name, run in history.since.items() if int(name.split()[1]) >= ENDED + STOPPED]
    assert unknown == {run.run_uid for run in (*alive, history.before["reopened"])}


def _assert_all_known_and_right(history: History) -> None:
    assert _known(history) == history.all
    assert {run.run_id: problems for run in history.all if (problems := divergences(history.ground, run))} == {}
    assert list(_jobs_that_ran_twice(history)) == []
