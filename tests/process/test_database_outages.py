"""The database server is frozen, ended and killed while runs are in every stage: they wait, say so, and go on."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
import pytest_asyncio

from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.states import TaskStatus
from tests.kit.data.databases import MariaDB, create_database, mariadb, mariadb_is_installed, missing
from tests.kit.waiting import eventually, eventually_async
from tests.process.crawls import PATIENCE, Site, clean_site, held
from tests.process.stops import CRAWLERS, answer, assert_stopped, command, end_runs, frozen

pytestmark = [pytest.mark.process, pytest.mark.system, pytest.mark.timeout(240)]
DURABLE = (
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-buffer-pool-size=32M",
    "--skip-log-bin",
    "--skip-name-resolve",
)
OUTAGES = ("ended", "killed", "frozen")
PLACES = 2 * len(OUTAGES) + 3


@dataclass(frozen=True)
class Runs:
    """In every stage, where each stays until the test lets it go on.

    After an outage a run looks less often, as its last look took so long: so each outage has some of its own."""

    reconciling: dict[str, Started]
    stubborn: dict[str, Started]  # do not listen to a stop
    ending: Started  # of two tasks
    filling: Started  # takes the place that the completing run leaves
    deploying: Started  # waits for a place
    completing: Started  # waits to announce its end
    announcements: ExitStack  # held back until this is closed


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDB]:
    if not mariadb_is_installed():
        missing("no mariadbd on this machine (Debian's package is mariadb-server)")
    with mariadb(*DURABLE) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stack(tmp_path_factory: pytest.TempPathFactory, server: MariaDB) -> AsyncIterator[Site]:
    # a server that is frozen is noticed by the time that it takes to answer
    url = create_database(server.port, "crawler") + "?read_timeout=1"
    said = {"CRAWLER_DATABASE__URL": url, "CRAWLER_CLUSTER__CAPACITY": str(PLACES)}
    async with clean_site(tmp_path_factory.mktemp("database"), CRAWLERS, said) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def runs(stack: Site) -> AsyncIterator[Runs]:
    events = stack.state / "exports" / "events.jsonl"
    events.parent.mkdir(exist_ok=True)
    with ExitStack() as announcements:
        announcements.enter_context(held(events))
        running = await asyncio.gather(
            *(stack.start() for _ in OUTAGES),
            *(stack.start("stubborn", grace_seconds=600) for _ in OUTAGES),
            stack.start(tasks=2),
            stack.start(),
        )
        *others, ending, completing = running
        await eventually(lambda: all(stack.jobs(run) for run in running), patience=PATIENCE)
        await eventually(lambda: stack.statuses(ending) == [TaskStatus.RUNNING] * 2, patience=PATIENCE)
        filling = await stack.start()
        await eventually(lambda: stack.statuses(filling) == [TaskStatus.PENDING], patience=PATIENCE)
        deploying = await stack.start()
        stack.release(completing, 0)
        await stack.under_way(completing.workflow_id, "initiate_export_signal")
        await eventually(lambda: stack.jobs(filling), patience=PATIENCE)
        await eventually(lambda: stack.details(deploying).run.waiting_cause == "capacity", patience=PATIENCE)
        for run in others:
            await stack.until_running(run, 1)
        reconciling, stubborn = others[: len(OUTAGES)], others[len(OUTAGES) :]
        yield Runs(
            dict(zip(OUTAGES, reconciling, strict=True)),
            dict(zip(OUTAGES, stubborn, strict=True)),
            *(ending, filling, deploying, completing, announcements),
        )
    await end_runs(stack, *running, filling, deploying)


@contextmanager
def away(server: MariaDB, how: str) -> Iterator[None]:
    assert server.process
    if how == "frozen":
        with frozen(server.process.pid):
            yield
    else:
        server.end(signal.SIGKILL if how == "killed" else signal.SIGTERM)
        yield
        assert server.serves()


@pytest.mark.parametrize("how", OUTAGES)
async def test_every_run_waits_for_the_database_and_goes_on(stack: Site, runs: Runs, server: MariaDB, how: str) -> None:
    reconciling, stopping = runs.reconciling[how], runs.stubborn[how]
    await stack.control.runs.stop(stopping.run_id, StopRequest(actor="ann", reason="wrong site"))
    await eventually(lambda: stack.statuses(stopping) == [TaskStatus.STOPPING], patience=PATIENCE)
    waiting = (reconciling, stopping, runs.deploying)
    before = {run.run_id: stack.statuses(run) for run in waiting}
    with away(server, how):
        await stack.nudge(*waiting)
        for run in waiting:
            await eventually_async(_in_trouble(stack, run), patience=PATIENCE)
        await _assert_told(stack, reconciling)
    back_at = datetime.now(UTC)
    for run in waiting:
        await eventually_async(_out_of_trouble(stack, run), patience=PATIENCE)
        await eventually(lambda run=run: _looked_at(stack, run) > back_at, patience=PATIENCE)  # type: ignore[misc]
    assert {run.run_id: stack.statuses(run) for run in waiting} == before


async def test_what_ends_while_the_database_is_away_ends_right(stack: Site, runs: Runs, server: MariaDB) -> None:
    gated = (runs.filling, runs.deploying)
    with away(server, "killed"):
        runs.announcements.close()
        stack.release(runs.ending, 0, 1, codes={1: 5})
        for run in gated:
            stack.release(run, 0)
        await eventually_async(_in_trouble(stack, runs.completing), patience=PATIENCE)
        await eventually(lambda: _ends(stack, runs.ending) == {0: (0,), 1: (5,)}, patience=PATIENCE)
        await eventually(lambda: _ends(stack, runs.deploying) == {0: (0,)}, patience=PATIENCE)
    cut_short = (*runs.reconciling.values(), *runs.stubborn.values())
    for run in cut_short:
        await stack.control.runs.stop(run.run_id, StopRequest(actor="bob", force=True))
    for run in cut_short:
        await assert_stopped(stack, run, "stopped_forced")
    ended = await stack.assert_true(runs.ending, {0: 0, 1: 5})
    assert ended.run.reason == "tasks_failed"
    for run in (runs.completing, *gated):
        await stack.assert_true(run, {0: 0})


def _ends(stack: Site, run: Started) -> dict[int, tuple[int, ...]]:
    return {task: job.ends for (task, _), job in stack.jobs(run).items()}


def _looked_at(stack: Site, run: Started) -> datetime:
    return stack.details(run).run.last_look_at or datetime.min.replace(tzinfo=UTC)


async def _assert_told(stack: Site, run: Started) -> None:
    """A person gets one line, and nothing is changed."""
    asked = [command(stack, verb, str(run.run_id)) for verb in ("show", "stop")]
    for status, told in await asyncio.gather(*asked):
        assert status == 4, told
        (line,) = answer(told)
        assert line.startswith("Error: the database at mysql"), line


def _in_trouble(stack: Site, run: Started) -> Callable[[], Awaitable[bool]]:
    async def told() -> bool:
        return any("the database at" in each for each in await stack.troubles(run))

    return told


def _out_of_trouble(stack: Site, run: Started) -> Callable[[], Awaitable[bool]]:
    async def none() -> bool:
        return not await stack.troubles(run)

    return none
