"""`crawlctl stop` gave up when the database took no writes, and waited without a word while it was locked. (D9, U6)

While a write waited for locks, for a minute at most, the run's workflow heard nothing of the stop. (M3)"""

import asyncio
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from temporalio.client import WorkflowHandle
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.model.answers import Stopping
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.runs.cli import running
from crawler_lifecycle.runs.commands import stops as stops_module
from tests.kit.service.commands import Crawlctl

pytestmark = pytest.mark.regression(
    "`crawlctl stop` gave up when the database took no writes, and waited without a word while it was locked"
)


@asynccontextmanager
async def supervised(run: RunRecord, server: WorkflowEnvironment) -> AsyncIterator[WorkflowHandle[Any, Any]]:
    """The run's workflow is open; no worker is there to take its tasks."""
    handle = await server.client.start_workflow(
        "CrawlerLifecycleWorkflow", {}, id=run.workflow_id, task_queue="without-a-worker"
    )
    try:
        yield handle
    finally:
        await handle.terminate()


@pytest.fixture
def temporal(real_time: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch) -> WorkflowEnvironment:
    monkeypatch.setenv("TEMPORAL_ADDRESS", real_time.client.service_client.config.target_host)
    return real_time


@pytest.fixture
def read_only(run: RunRecord, state: Path) -> Iterator[Path]:
    """The file of the database, mounted so that it can only be read. A command that ended may still hold it open."""
    file = state / "crawler.db"
    bound = subprocess.run(["mount", "--bind", file, file], capture_output=True)
    if bound.returncode:
        pytest.skip(f"this user may not mount: {bound.stderr.decode()}")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", file], check=True)
        yield file
    finally:
        subprocess.run(["umount", "--lazy", file], check=True)


@pytest.fixture
def locked(run: RunRecord, state: Path) -> Iterator[sqlite3.Connection]:
    """A database whose file another program has locked, until the program commits: rows can only be read."""
    with sqlite3.connect(state / "crawler.db", isolation_level=None, check_same_thread=False) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes give up after a moment, and so before a signal would be sent early."""
    monkeypatch.setattr("crawler_lifecycle.database.database.LOCK_SECONDS", 0)
    monkeypatch.setattr(stops_module, "RECORD_SECONDS", 60)


@pytest.fixture
def completed(run: RunRecord, state: Path) -> None:
    with sqlite3.connect(state / "crawler.db") as connection:
        connection.execute("UPDATE histories SET status = 'COMPLETED', reason = 'all_succeeded'")


async def stops_of(handle: WorkflowHandle[Any, Any]) -> list[StopRequest]:
    return [
        StopRequest.model_validate_json(event.workflow_execution_signaled_event_attributes.input.payloads[0].data)
        async for event in handle.fetch_history_events()
        if event.HasField("workflow_execution_signaled_event_attributes")
    ]


async def stopped_twice(
    crawlctl: Crawlctl, run: RunRecord, handle: WorkflowHandle[Any, Any]
) -> tuple[Result, Result, list[StopRequest]]:
    """Stop the run in order and by force. Return both outputs and the stops that its workflow has."""
    plain = await asyncio.to_thread(crawlctl, "stop", str(run.run_id), "--direct", "--actor", "ann")
    forced = await asyncio.to_thread(crawlctl, "stop", str(run.run_id), "--direct", "--force", "--json")
    assert plain.exit_code == 0, plain.output
    assert plain.stdout.startswith(f"Stop requested for run {run.run_id}: the request is not stored yet (")
    return plain, forced, await stops_of(handle)


async def test_the_workflow_is_told_all_the_same(
    crawlctl: Crawlctl, run: RunRecord, read_only: Path, temporal: WorkflowEnvironment
) -> None:
    async with supervised(run, temporal) as handle:
        plain, forced, stops = await stopped_twice(crawlctl, run, handle)
    assert "readonly" in plain.stdout
    assert "and will be when the database takes writes" in plain.stdout
    answer = Stopping.model_validate_json(forced.stdout)
    assert (answer.intent, answer.told) == ("FORCE", "signal")
    assert "readonly" in str(answer.not_on_record)
    assert [stop.force for stop in stops] == [False, True]
    assert stops[0].actor == "ann"


async def test_the_workflow_is_told_although_the_database_stays_locked(
    crawlctl: Crawlctl, run: RunRecord, locked: sqlite3.Connection, impatient: None, temporal: WorkflowEnvironment
) -> None:
    async with supervised(run, temporal) as handle:
        plain, forced, stops = await stopped_twice(crawlctl, run, handle)
    assert "is locked by another process" in plain.stdout
    answer = Stopping.model_validate_json(forced.stdout)
    assert (answer.intent, answer.told) == ("FORCE", "signal")
    assert "is locked by another process" in str(answer.not_on_record)
    assert stops[0].actor == "ann"
    assert [stop.force for stop in stops] == [False, True]


def test_without_a_workflow_a_locked_database_is_told(
    crawlctl: Crawlctl, run: RunRecord, locked: sqlite3.Connection, impatient: None, temporal: WorkflowEnvironment
) -> None:
    result = crawlctl("stop", str(run.run_id), "--direct")
    assert (result.exit_code, result.stdout) == (4, "")
    assert "is locked by another process" in result.stderr


@pytest.mark.parametrize("seconds", [0, 60], ids=["before the write", "after the write"])
async def test_no_later_run_is_stopped_while_the_database_is_locked(
    crawlctl: Crawlctl,
    run: RunRecord,
    completed: None,
    locked: sqlite3.Connection,
    impatient: None,
    temporal: WorkflowEnvironment,
    monkeypatch: pytest.MonkeyPatch,
    seconds: int,
) -> None:
    monkeypatch.setattr(stops_module, "RECORD_SECONDS", seconds)
    async with supervised(run, temporal) as later:
        result = await asyncio.to_thread(crawlctl, "stop", str(run.run_id), "--direct", "--force")
        assert await stops_of(later) == []
    assert (result.exit_code, result.stdout) == (6, "")


async def until_signalled(handle: WorkflowHandle[Any, Any]) -> list[StopRequest]:
    """Return the stops in the workflow's history, as soon as there is a stop."""
    async with asyncio.timeout(30):
        while not (stops := await stops_of(handle)):
            await asyncio.sleep(0.05)
    return stops


@pytest.mark.long
async def test_a_write_that_waits_delays_no_signal(
    crawlctl: Crawlctl, run: RunRecord, locked: sqlite3.Connection, temporal: WorkflowEnvironment
) -> None:
    """The line in the timeline is the same line, whether the command or the workflow writes the line first."""
    async with supervised(run, temporal) as handle:
        stopping = asyncio.create_task(
            asyncio.to_thread(crawlctl, "stop", str(run.run_id), "--direct", "--actor", "ann")
        )
        [early] = await until_signalled(handle)
        assert not stopping.done(), "the command answers when the stop is on record"
        locked.execute("COMMIT")
        result: Result = await stopping
        assert await stops_of(handle) == [early], "a single signal"
    assert result.exit_code == 0, result.output
    assert result.stdout == f"Stop requested for run {run.run_id}\n"
    with sqlite3.connect(locked.execute("PRAGMA database_list").fetchone()[2]) as connection:
        [(asked_at,)] = connection.execute("SELECT at FROM history_logs WHERE event = 'stop'").fetchall()
    assert early.asked_at is not None
    assert datetime.fromisoformat(asked_at).replace(tzinfo=UTC) == early.asked_at


@pytest.mark.parametrize(("intent", "status"), [("STOP", 0), ("RUN", 6)])
@pytest.mark.long
async def test_a_run_that_ended_while_the_write_waited_is_told(
    crawlctl: Crawlctl,
    run: RunRecord,
    locked: sqlite3.Connection,
    temporal: WorkflowEnvironment,
    intent: str,
    status: int,
) -> None:
    """The workflow has carried the stop out, or the run had ended by itself before the workflow knew of the stop."""
    async with supervised(run, temporal) as handle:
        stopping = asyncio.create_task(asyncio.to_thread(crawlctl, "stop", str(run.run_id), "--direct"))
        await until_signalled(handle)
        locked.execute(f"UPDATE histories SET status = 'FAILED', intent = '{intent}', reason = 'stopped'")
        locked.execute("COMMIT")
        result: Result = await stopping
    assert result.exit_code == status, result.output
    assert (result.stdout == f"Stop requested for run {run.run_id}\n") is (status == 0)


def test_without_a_workflow_the_problem_of_the_database_is_told(
    crawlctl: Crawlctl, run: RunRecord, read_only: Path, temporal: WorkflowEnvironment
) -> None:
    """A run that nobody supervises is resumed to be stopped, and that takes the database."""
    result = crawlctl("stop", str(run.run_id), "--direct")
    assert (result.exit_code, result.stdout) == (4, "")
    assert "readonly" in result.stderr


async def test_a_run_that_is_over_stops_no_later_run_under_its_workflow_id(
    crawlctl: Crawlctl, run: RunRecord, completed: None, read_only: Path, temporal: WorkflowEnvironment
) -> None:
    async with supervised(run, temporal) as later:
        result = await asyncio.to_thread(crawlctl, "stop", str(run.run_id), "--direct", "--force")
        assert await stops_of(later) == []
    assert (result.exit_code, result.stdout) == (6, "")
    assert "there is nothing to stop" in result.stderr


@pytest.mark.long
async def test_a_wait_for_a_locked_database_is_told(
    crawlctl: Crawlctl, run: RunRecord, state: Path, temporal: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "SECONDS_UNTIL_NOTE", 0.5)
    with sqlite3.connect(state / "crawler.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        async with supervised(run, temporal):
            stopping = asyncio.create_task(asyncio.to_thread(crawlctl, "stop", str(run.run_id), "--direct"))
            await asyncio.wait([stopping], timeout=3)
            assert not stopping.done()
            other.execute("COMMIT")
            result: Result = await stopping
    assert result.exit_code == 0, result.output
    (line,) = result.stderr.splitlines()
    assert line == f"stop of run {run.run_id}: the database or Temporal answers slowly, waiting for it ..."
    assert result.stdout == f"Stop requested for run {run.run_id}\n"
