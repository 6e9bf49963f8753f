"""A part of a running stack is killed with -9, in the middle of things: every run ends, and ends with the truth."""

import os
import signal
from pathlib import Path
from uuid import uuid4

import pytest
import pytest_asyncio

from crawler_lifecycle.contract.states import ExportState, RunStatus, TaskStatus
from crawler_lifecycle.control.control import Started
from tests.embedded import eventually
from tests.process.crawls import PATIENCE, Site, held

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def waiting(stack: Site) -> Started:
    """Asked for early, because every run takes some seconds until it is past its deployment."""
    return await stack.start(tasks=3)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cut_off(stack: Site) -> Started:
    """A run whose export was under way when the worker was killed. That is missed late: other tests go on meanwhile."""
    run = await stack.start("big")
    await stack.until_running(run, 1)
    stack.release(run, 0)
    await stack.under_way(run.workflow_id, "export_supporting_files")
    with held(stack.state / "exports" / "events.jsonl"):
        killed = stack.kill("lifecycle")
    exports = {each.kind: each.state for each in stack.details(run).exports}
    assert exports == {"run_ended": ExportState.DONE, "files_ready": ExportState.PENDING}
    await stack.until_replaced("lifecycle", killed)
    return run


async def test_the_worker_dies_with_runs_in_every_stage(stack: Site, waiting: Started, cut_off: Started) -> None:
    """In mid-activity: a history being made, a deployment under way. One run waits for its next look."""
    await stack.until_running(waiting, 3)
    with held(_placing_lock(stack)):
        deploying = await stack.start()
        await stack.under_way(deploying.workflow_id, "run_onetime_crawler")
        scheduler = stack.pid("scheduler")
        os.kill(scheduler, signal.SIGSTOP)
        beginning = f"crawl-beginning-{uuid4()}"
        execution = await stack.submit(beginning)
        await stack.under_way(beginning, "create_history_id")
        killed = stack.kill("lifecycle")
        os.kill(scheduler, signal.SIGCONT)
    stack.release(waiting, 1, codes={1: 3})
    unborn = f"crawl-unborn-{uuid4()}"
    unborn_execution = await stack.submit(unborn)
    await stack.until_replaced("lifecycle", killed)

    begun = await stack.submitted(beginning, execution)
    born = await stack.submitted(unborn, unborn_execution)
    stack.release(waiting, 0, 2)
    for run in (deploying, begun, born):
        stack.release(run, 0)
    waited = await stack.assert_true(waiting, {0: 0, 1: 3, 2: 0})
    assert waited.run.reason == "tasks_failed"
    for run in (deploying, begun, born):
        await stack.assert_true(run, {0: 0})
    for workflow_id, activity in ((deploying.workflow_id, "run_onetime_crawler"), (beginning, "create_history_id")):
        assert (await stack.attempts(workflow_id))[activity] == [2]


@pytest.mark.parametrize("part", ["dispatcher", "scheduler", "watcher"])
async def test_a_part_dies_while_a_run_is_being_deployed(stack: Site, part: str) -> None:
    """The deployments of the child tasks are under way: claimed, asked for, not answered."""
    run = await stack.start(tasks=3)
    await eventually(lambda: stack.jobs(run), PATIENCE)
    with held(_placing_lock(stack)):
        await eventually(lambda: stack.statuses(run)[1:] == [TaskStatus.DEPLOYING] * 2, PATIENCE)
        killed = stack.kill(part)
        await stack.until_replaced(part, killed)
    await stack.until_running(run, 3)
    stack.release(run, 0, 1, 2, codes={2: 7})
    details = await stack.assert_true(run, {0: 0, 1: 0, 2: 7})
    assert (details.run.status, details.run.reason) == (RunStatus.FAILED, "tasks_failed")


async def test_an_export_that_was_cut_off_is_made_again_under_its_id(stack: Site, cut_off: Started) -> None:
    await stack.assert_true(cut_off, {0: 0})
    [attempt] = (await stack.attempts(cut_off.workflow_id))["export_supporting_files"]
    assert attempt >= 2
    archives = [path.name for path in (stack.state / "exports").iterdir() if cut_off.run_uid in path.name]
    assert len(archives) == 1, "what the first try has left is cleared"


def _placing_lock(stack: Site) -> Path:
    return stack.state / "cluster" / "placing.lock"
