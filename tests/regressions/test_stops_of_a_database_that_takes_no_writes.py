"""`crawlctl stop` gave up when the database took no writes, and waited without a word while it was locked. (D9, U6)"""

import asyncio
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from temporalio.client import WorkflowHandle
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.cli import stopping as cli_stopping
from crawler_lifecycle.contract.records import RunRecord
from crawler_lifecycle.contract.requests import StopRequest
from crawler_lifecycle.control.runs import Stopping
from tests.commands import Crawlctl


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
def completed(run: RunRecord, state: Path) -> None:
    with sqlite3.connect(state / "crawler.db") as connection:
        connection.execute("UPDATE histories SET status = 'COMPLETED', reason = 'all_succeeded'")


async def stops_of(handle: WorkflowHandle[Any, Any]) -> list[StopRequest]:
    return [
        StopRequest.model_validate_json(event.workflow_execution_signaled_event_attributes.input.payloads[0].data)
        async for event in handle.fetch_history_events()
        if event.HasField("workflow_execution_signaled_event_attributes")
    ]


async def test_the_workflow_is_told_all_the_same(
    crawlctl: Crawlctl, run: RunRecord, read_only: Path, temporal: WorkflowEnvironment
) -> None:
    async with supervised(run, temporal) as handle:
        plain = await asyncio.to_thread(crawlctl, "stop", str(run.run_id), "--actor", "ann")
        forced = await asyncio.to_thread(crawlctl, "stop", str(run.run_id), "--force", "--json")
        stops = await stops_of(handle)
    assert plain.exit_code == 0, plain.output
    assert plain.stdout.startswith(f"run {run.run_id}: STOP is not on record yet (")
    assert "readonly" in plain.stdout
    assert "its workflow is told, and will put it on record when the database takes it" in plain.stdout
    answer = Stopping.model_validate_json(forced.stdout)
    assert (answer.intent, answer.told) == ("FORCE", "signal")
    assert "readonly" in str(answer.not_on_record)
    assert [stop.force for stop in stops] == [False, True]
    assert stops[0].actor == "ann"


def test_without_a_workflow_the_problem_of_the_database_is_told(
    crawlctl: Crawlctl, run: RunRecord, read_only: Path, temporal: WorkflowEnvironment
) -> None:
    """A run that nobody supervises is resumed to be stopped, and that takes the database."""
    result = crawlctl("stop", str(run.run_id))
    assert (result.exit_code, result.stdout) == (4, "")
    assert "readonly" in result.stderr


async def test_a_run_that_is_over_stops_no_later_run_under_its_workflow_id(
    crawlctl: Crawlctl, run: RunRecord, completed: None, read_only: Path, temporal: WorkflowEnvironment
) -> None:
    async with supervised(run, temporal) as later:
        result = await asyncio.to_thread(crawlctl, "stop", str(run.run_id), "--force")
        assert await stops_of(later) == []
    assert (result.exit_code, result.stdout) == (6, "")
    assert "there is nothing to stop" in result.stderr


async def test_a_wait_for_a_locked_database_is_told(
    crawlctl: Crawlctl, run: RunRecord, state: Path, temporal: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_stopping, "SILENT_SECONDS", 0.5)
    with sqlite3.connect(state / "crawler.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        async with supervised(run, temporal):
            stopping = asyncio.create_task(asyncio.to_thread(crawlctl, "stop", str(run.run_id)))
            await asyncio.wait([stopping], timeout=3)
            assert not stopping.done()
            other.execute("COMMIT")
            result: Result = await stopping
    assert result.exit_code == 0, result.output
    (line,) = result.stderr.splitlines()
    assert line == f"stop of run {run.run_id}: the database or Temporal answers slowly, waiting for it ..."
    assert "STOP is on record, its workflow is told" in result.stdout
