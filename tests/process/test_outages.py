"""The engine, the watcher, or everything at once is away for a while: the runs go on, and end with the truth."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial

import psutil
import pytest
import pytest_asyncio

from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.states import TaskStatus
from tests.kit.waiting import eventually, eventually_async
from tests.process.crawls import PATIENCE, Site, held, moved
from tests.process.interruptions import interrupted
from tests.process.stops import assert_stopped, command, until_closed

pytestmark = [pytest.mark.process, pytest.mark.system, pytest.mark.timeout(240)]
LONG = timedelta(seconds=45)  # the second look comes two minutes after the first
Overlooked = tuple[Started, datetime]
DRAIN_SECONDS = 20.0


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def overlooked(stack: Site) -> AsyncIterator[Overlooked]:
    """A run of two tasks, one of which ended while the watcher was stopped, which was then killed.

    The run's next look is a minute away: the other tests go on meanwhile.
    """
    run = await stack.start(tasks=2)
    await stack.until_running(run, 2)
    watcher = stack.pid("watcher")
    os.kill(watcher, signal.SIGSTOP)
    runner = stack.runner(run, 1)
    stack.release(run, 1, codes={1: 5})
    await eventually(lambda: not psutil.pid_exists(runner), patience=20)
    assert stack.statuses(run) == [TaskStatus.RUNNING] * 2
    stack.forget_changes(run)
    stack.kill("watcher")
    await stack.until_replaced("watcher", watcher)
    yield run, _next_look(stack, run)
    stack.release(run, 0)


@pytest.mark.usefixtures("overlooked")
async def test_temporal_dies_and_all_runs_go_on(stack: Site) -> None:
    reconciling = await stack.start(tasks=2)
    await stack.until_running(reconciling, 2)
    others = await interrupted(stack)
    deploying = await stack.start()
    killed = stack.kill("temporal")
    others.release()
    stack.release(reconciling, 0, 1, codes={1: 4})
    stack.release(deploying, 0)
    await stack.until_replaced("temporal", killed)
    await stack.assert_true(reconciling, {0: 0, 1: 4})
    await stack.assert_true(deploying, {0: 0})
    await others.assert_completed()


async def test_sigterm_lets_the_worker_finish_what_is_under_way(stack: Site) -> None:
    run = await stack.start()
    await stack.until_running(run, 1)
    worker = stack.pid("lifecycle")
    log = stack.state / "logs" / "lifecycle.log"
    with held(stack.state / "exports" / "events.jsonl"):
        stack.release(run, 0)
        await stack.under_way(run.workflow_id, "initiate_export_signal")
        os.kill(worker, signal.SIGTERM)
        told_at = time.monotonic()
        await eventually(lambda: "finishes what is under way" in log.read_text(), patience=20)
        assert psutil.pid_exists(worker), "it must wait for the announcement"
    await eventually(lambda: not psutil.pid_exists(worker), patience=20)
    assert time.monotonic() - told_at < DRAIN_SECONDS
    await stack.command.wait_for("lifecycle ended with status 0")
    await stack.assert_true(run, {0: 0})
    await until_closed(stack, run.workflow_id)
    assert (await stack.attempts(run.workflow_id))["initiate_export_signal"] == [1]


async def test_the_folder_of_the_cluster_is_away_for_a_while(stack: Site) -> None:
    """Nothing of it is taken for gone, and what ended meanwhile ended as it did."""
    going_on, stopping, ending = await asyncio.gather(
        stack.start(), stack.start("stubborn", grace_seconds=600), stack.start()
    )
    for run in (going_on, stopping, ending):
        await stack.until_running(run, 1)
    await stack.control.runs.stop(stopping.run_id, StopRequest(actor="ann"))
    others = await interrupted(stack)
    cluster = stack.state / "cluster"
    with moved(cluster):
        others.release()
        stack.release(ending, 0, codes={0: 4})
        await eventually(lambda: stack.jobs(ending)[0, 1].ends == (4,), patience=PATIENCE)
        deploying = await stack.start()
        away = f"{cluster} is missing: is it mounted?"
        await stack.nudge(going_on, stopping, ending, deploying)
        for run in (going_on, ending, deploying):
            await eventually(partial(_is_not_seen, stack, run, away), patience=2 * PATIENCE)
        await eventually_async(partial(_is_tried_again, stack, stopping, away), patience=PATIENCE)
        _, shown = await command(stack, "show", str(going_on.run_id))
        assert away in shown
        assert not cluster.exists()
    stack.release(going_on, 0)
    stack.release(deploying, 0)
    await stack.control.runs.stop(stopping.run_id, StopRequest(actor="ann", force=True))
    await assert_stopped(stack, stopping, "stopped_forced")
    await stack.assert_true(ending, {0: 4})
    for run in (going_on, deploying):
        await stack.assert_true(run, {0: 0})
    await others.assert_completed()


async def _is_tried_again(stack: Site, run: Started, problem: str) -> bool:
    return any(problem in each for each in await stack.troubles(run))


def _is_not_seen(stack: Site, run: Started, problem: str) -> bool:
    """It says so, and believes what it believed before."""
    details = stack.details(run)
    told = details.run.look_problem or details.run.waiting_message or ""
    return problem in told and not any(task.status.is_over for task in details.tasks)


async def test_what_the_watcher_missed_is_found_by_the_next_look(stack: Site, overlooked: Overlooked) -> None:
    """And what it sees is in the database long before the next one."""
    run, due = overlooked
    statuses, now = stack.statuses(run), datetime.now(UTC)
    assert now >= due or statuses == [TaskStatus.RUNNING] * 2, "nothing but the look can find it"
    await eventually(lambda: stack.statuses(run)[1] is TaskStatus.FAILED, patience=2 * PATIENCE)
    assert datetime.now(UTC) >= due

    await eventually(lambda: _next_look(stack, run) - datetime.now(UTC) > LONG, patience=3 * PATIENCE)
    due = _next_look(stack, run)
    runner = stack.runner(run, 0)
    stack.release(run, 0)
    await eventually(lambda: not psutil.pid_exists(runner), patience=20)
    # How soon is for a benchmark: looks keep a distance of ten times what the last one took, and the machine may be
    # busy. What is proved here is that it did not take the next look that was due anyway.
    details = await stack.assert_true(run, {0: 0, 1: 5})
    assert details.run.last_look_at
    assert details.run.last_look_at < due


def _next_look(stack: Site, run: Started) -> datetime:
    due = stack.details(run).run.next_look_at
    assert due is not None
    return due
