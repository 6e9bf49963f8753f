"""Everything is killed with -9 at once: the jobs outlive it, and the next stack goes on with every run."""

import os
import signal
from pathlib import Path

import psutil
import pytest

from crawler_lifecycle.model.records import ALL_RUNS
from crawler_lifecycle.model.states import RunStatus
from tests.kit.service.embedded import processes_of, stack_processes
from tests.kit.waiting import eventually
from tests.process.crawls import PATIENCE, site

pytestmark = [pytest.mark.process, pytest.mark.system, pytest.mark.timeout(240)]


async def test_everything_dies_and_the_next_stack_goes_on(folder: Path) -> None:
    """The jobs outlive it: some end, with and without their runners, while nobody is there to see it."""
    async with site(folder) as first:
        unseen, going_on = [await first.start(tasks=tasks) for tasks in (3, 1)]
        lost = await first.start(tasks=2, retries={"infrastructure": 0})
        for run, tasks in ((unseen, 3), (lost, 2), (going_on, 1)):
            await first.until_running(run, tasks)
        deploying = await first.start(tasks=2)
        await eventually(lambda: first.jobs(deploying), patience=PATIENCE)
        everything = [first.command.process.pid, *stack_processes(first.state).values()]
        for pid in everything:
            os.kill(pid, signal.SIGKILL)
        await first.command.end()
        await eventually(lambda: not any(psutil.pid_exists(pid) for pid in everything), patience=20)

        first.release(unseen, 0, 1, 2, codes={2: 3})
        first.release(deploying, 0)
        runner = first.runner(lost, 1)
        os.kill(runner, signal.SIGKILL)
        await eventually(lambda: not psutil.pid_exists(runner), patience=20)
        first.release(lost, 1)
        await eventually(lambda: first.jobs(lost)[1, 1].ends == (0,), patience=20)
        await eventually(lambda: len(list(first.job_folder(unseen, 0).parent.glob("*/exit.json"))) == 3, patience=20)
        assert {run.status for run in first.control.runs.select(ALL_RUNS)} <= {
            RunStatus.PROCESSING,
            RunStatus.INITIALIZING,
        }

    async with site(folder) as second:
        second.asked += first.asked
        second.release(going_on, 0)
        second.release(lost, 0)
        second.release(deploying, 1)
        ended = await second.assert_true(unseen, {0: 0, 1: 0, 2: 3})
        assert ended.run.reason == "tasks_failed"
        ended = await second.assert_true(lost, {0: 0, 1: None})
        assert ended.run.reason == "tasks_lost"
        await second.assert_true(going_on, {0: 0})
        await second.assert_true(deploying, {0: 0, 1: 0})
        second.assert_one_history_per_request()
    assert processes_of(folder) == []
