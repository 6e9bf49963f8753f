"""A task that lost its job to the infrastructure gets its next attempt, from the look to the dispatcher's new job."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.run_plan import CloseRun, RunPlan
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from crawler_lifecycle.model.task_changes import AliveTasks, CloseLook, Differences, StatusWrite
from crawler_lifecycle.runs.model import LogCancellation
from crawler_lifecycle.runs.processes.dispatcher import Dispatcher
from tests.kit.service.rig import Rig
from tests.kit.waiting import until
from tests.runs.removals import differences

AT_ONCE = {"infrastructure": 2, "program": 1, "pause_seconds": 0}


@pytest.fixture
def dispatcher(rig: Rig) -> Iterator[Dispatcher]:
    with ThreadPoolExecutor(2) as pool:
        yield Dispatcher(rig.claims, rig.claim_deployer, timedelta(minutes=1), 2, pool)


def lose_last_job(rig: Rig) -> None:
    """Kill the runner before the program, so that nobody sees how the program ends."""
    request = rig.deployer.requests[-1]
    rig.bench.kill_runner(request)
    for process in rig.bench.processes(request):
        process.kill()
    until(lambda: not rig.bench.living_of(request), "the job to be gone")


def written(rig: Rig, plan: RunPlan, status: TaskStatus) -> Differences:
    """Wait for a look that finds an end with this status, write its changes, and return its differences."""

    def with_an_end() -> Differences | None:
        seen = differences(rig, plan)
        rig.do(rig.reconciliation.sync_statuses, StatusWrite(run=plan.run, changes=seen.changes))
        return seen if any(change.status is status for change in seen.changes) else None

    return until(with_an_end, f"a task to be {status}")


def alive(rig: Rig, plan: RunPlan) -> AliveTasks:
    return rig.do(rig.reconciliation.count_alive_tasks, CloseLook(run=plan.run))


def attempt(rig: Rig, plan: RunPlan) -> tuple[TaskStatus, int]:
    (task,) = rig.details(plan).tasks
    return task.status, task.attempt


def test_a_main_job_that_was_lost_gets_a_second_and_a_third_attempt(rig: Rig, dispatcher: Dispatcher) -> None:
    plan = rig.started("sleepy", tasks=1, retries=AT_ONCE)
    for number in (2, 3):
        lose_last_job(rig)
        written(rig, plan, TaskStatus.LOST)
        assert attempt(rig, plan) == (TaskStatus.QUEUED, number)
        assert alive(rig, plan).total == 1, "the run goes on"
        assert dispatcher.dispatch() == 1
        assert rig.deployer.requests[-1].attempt == number
    lose_last_job(rig)
    written(rig, plan, TaskStatus.LOST)
    assert attempt(rig, plan) == (TaskStatus.LOST, 3)
    assert alive(rig, plan).total == 0
    outcome = rig.do(rig.histories.update_run_status, CloseRun(run=plan.run))
    assert (outcome.status, outcome.reason) == (RunStatus.FAILED, "main_job_lost")
    former = rig.details(plan).tasks[0].former_attempts
    assert [(earlier.attempt, earlier.reason) for earlier in former] == [(1, "runner_lost"), (2, "runner_lost")]


@pytest.mark.long
def test_a_program_that_failed_runs_again_on_request(rig: Rig, dispatcher: Dispatcher) -> None:
    plan = rig.started("books", tasks=2, retries=AT_ONCE)
    assert dispatcher.dispatch() == 1
    written(rig, plan, TaskStatus.FAILED)
    until(dispatcher.dispatch, "the second attempt to be deployed")
    assert rig.deployer.requests[-1].attempt == 2
    written(rig, plan, TaskStatus.FAILED)
    tasks = rig.details(plan).tasks
    assert [(task.status, task.attempt) for task in tasks] == [(TaskStatus.SUCCEEDED, 1), (TaskStatus.FAILED, 2)]
    assert [earlier.exit_code for earlier in tasks[1].former_attempts] == [3]


def test_a_stop_in_the_pause_leaves_nothing_to_deploy(rig: Rig, dispatcher: Dispatcher) -> None:
    plan = rig.started("sleepy", tasks=1, retries={"pause_seconds": 600})
    lose_last_job(rig)
    written(rig, plan, TaskStatus.LOST)
    assert attempt(rig, plan) == (TaskStatus.QUEUED, 2)
    assert dispatcher.dispatch() == 0
    stop = LogCancellation(run=plan.run, stop=StopRequest(), asked_at=rig.details(plan).run.created_at)
    rig.do(rig.stopping.add_cancellation_log_to_db, stop)
    rig.do(rig.stopping.cancel_queued_tasks, CloseRun(run=plan.run))
    assert attempt(rig, plan) == (TaskStatus.STOPPED, 2)
    assert alive(rig, plan).total == 0


def test_a_stop_between_look_and_write(rig: Rig, dispatcher: Dispatcher) -> None:
    plan = rig.started("sleepy", tasks=1, retries=AT_ONCE)
    lose_last_job(rig)

    def lost() -> Differences | None:
        seen = differences(rig, plan)
        return seen if any(change.next_attempt for change in seen.changes) else None

    seen = until(lost, "the loss to be seen")
    stop = LogCancellation(run=plan.run, stop=StopRequest(), asked_at=rig.details(plan).run.created_at)
    rig.do(rig.stopping.add_cancellation_log_to_db, stop)
    rig.do(rig.reconciliation.sync_statuses, StatusWrite(run=plan.run, changes=seen.changes))
    assert attempt(rig, plan) == (TaskStatus.LOST, 1)
    assert dispatcher.dispatch() == 0
