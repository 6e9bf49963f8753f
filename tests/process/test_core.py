"""What `make test` proves with real processes, on one stack: the worker dies, a run is stopped.

All else that needs a stack is for `make test-system`.
"""

import os
import signal
from uuid import uuid4

import pytest
import pytest_asyncio

from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.states import RunStatus
from tests.process.crawls import Site, held
from tests.process.stops import assert_stopped, command

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def waiting(stack: Site) -> Started:
    """Asked for early, because every run takes some seconds until it is past its deployment."""
    return await stack.start(tasks=3)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stopped(stack: Site) -> Started:
    """The same."""
    return await stack.start("polite", tasks=3)


async def test_the_worker_dies_with_runs_in_every_stage(stack: Site, waiting: Started, stopped: Started) -> None:
    """In mid-activity: a history being made, a deployment under way. One run waits for its next look."""
    await stack.until_running(waiting, 3)
    with held(stack.placing_lock):
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


async def test_a_stop_that_is_waited_for_tells_each_phase(stack: Site, stopped: Started) -> None:
    await stack.until_running(stopped, 3)
    status, told = await command(
        stack, "stop", str(stopped.run_id), "--actor", "ann", "--reason", "wrong site", "--wait"
    )
    assert status == 0, told
    for words in (
        f"Stop requested for run {stopped.run_id}\n",
        "by ann (token embedded), api: wrong site",
        "jobs asked to end",
    ):
        assert words in told
    phases, end, _ = told.partition(
        f"\nrun {stopped.run_id} ended STOPPED (outcome cancelled, reason stopped): 3 STOPPED\n"
    )
    assert end, told
    assert "confirmed stopped after" in phases
    assert stack.details(stopped).run.status is RunStatus.FAILED, "it waits for the proof and the end"
    details = await assert_stopped(stack, stopped)
    assert {task.exit_code for task in details.tasks} == {143}
    assert {job.ends for job in stack.jobs(stopped).values()} == {(143,)}
