"""The dispatcher: within the limits, with a cause for whatever waits, never a job twice, none after a stop."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from crawler_lifecycle.errors import Refused, TemporaryError
from crawler_lifecycle.model.deployment import Deployment, DeploymentRequest
from crawler_lifecycle.model.looks import JobPhase
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.run_plan import CloseRun, RunPlan
from crawler_lifecycle.model.states import Intent, TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange
from crawler_lifecycle.runs.model import LogCancellation
from crawler_lifecycle.runs.ports import Claim
from crawler_lifecycle.runs.processes.dispatcher import Dispatcher
from tests.kit.service.rig import Rig
from tests.kit.waiting import until

THREADS = 4


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(THREADS) as pool:
        yield pool


def dispatcher(
    rig: Rig, pool: ThreadPoolExecutor, most: int = 100, claim_for: timedelta = timedelta(seconds=60)
) -> Dispatcher:
    rig.store.limits.change("installation", {"tasks": most}, None)
    return Dispatcher(rig.claims, rig.claim_deployer, claim_for, THREADS, pool)


def dispatch_all(dispatching: Dispatcher) -> int:
    total = 0
    while deployed := dispatching.dispatch():
        total += deployed
    return total


def statuses(rig: Rig, plan: RunPlan) -> list[TaskStatus]:
    return [task.status for task in rig.details(plan).tasks]


def causes(rig: Rig, plan: RunPlan) -> set[str | None]:
    return {task.cause for task in rig.details(plan).tasks if task.status is TaskStatus.QUEUED}


def jobs(rig: Rig, plan: RunPlan) -> int:
    return len(rig.bench.cluster.look(plan.run.run_uid).jobs)


def test_children_are_deployed_once_the_run_has_started(rig: Rig, pool: ThreadPoolExecutor) -> None:
    waiting, plan = rig.begin("sleepy", tasks=6), rig.started("sleepy", tasks=6)
    assert dispatch_all(dispatcher(rig, pool)) == 5
    assert statuses(rig, plan) == [TaskStatus.PENDING] * 6
    assert statuses(rig, waiting) == [TaskStatus.QUEUED] * 6
    assert dispatcher(rig, pool).dispatch() == 0
    assert jobs(rig, plan) == 6


def test_a_runs_limit_holds_and_is_the_cause(rig: Rig, pool: ThreadPoolExecutor) -> None:
    plan = rig.started("sleepy", tasks=6, max_parallel=3)
    dispatching = dispatcher(rig, pool)
    assert dispatch_all(dispatching) == 2
    assert causes(rig, plan) == {"run_limit"}
    since = {task.cause_since for task in rig.details(plan).tasks if task.cause}
    dispatching.dispatch()
    assert {task.cause_since for task in rig.details(plan).tasks if task.cause} == since


def test_the_installations_limit_is_shared_out(rig: Rig, pool: ThreadPoolExecutor) -> None:
    big, small = rig.started("sleepy", tasks=8), rig.started("sleepy", tasks=3)
    dispatch_all(dispatcher(rig, pool, most=6))
    assert jobs(rig, big) + jobs(rig, small) == 6
    assert jobs(rig, small) == 3
    assert causes(rig, big) == {"admission"}


def test_a_service_that_is_down_is_the_cause_and_its_return_is_used_at_once(rig: Rig, pool: ThreadPoolExecutor) -> None:
    plan = rig.started("sleepy", tasks=3)
    dispatching = dispatcher(rig, pool)
    rig.deployer.trouble = TemporaryError("connection refused")
    assert dispatching.dispatch() == 0
    children = rig.details(plan).tasks[1:]
    assert {(task.cause, task.message) for task in children} == {("scheduler_unavailable", "connection refused")}
    rig.deployer.trouble = None
    assert dispatching.dispatch() == 2
    assert statuses(rig, plan) == [TaskStatus.PENDING] * 3


def test_a_lost_answer_is_no_second_job(rig: Rig, pool: ThreadPoolExecutor) -> None:
    plan = rig.started("sleepy", tasks=4)
    dispatching = dispatcher(rig, pool)
    rig.deployer.loses_answers = True
    assert dispatching.dispatch() == 0
    rig.deployer.loses_answers = False
    assert dispatching.dispatch() == 3
    assert jobs(rig, plan) == 4


def test_what_a_dead_dispatcher_claimed_is_taken_up_by_the_next(rig: Rig, pool: ThreadPoolExecutor) -> None:
    plan = rig.started("sleepy", tasks=4)
    rig.deployer.loses_answers = True
    dispatcher(rig, pool, claim_for=timedelta(seconds=3)).dispatch()
    rig.deployer.loses_answers = False
    other = dispatcher(rig, pool)
    assert other.dispatch() == 0
    assert until(other.dispatch, "the claims to run out") == 3
    assert jobs(rig, plan) == 4


def test_a_refusal_fails_the_task_with_its_reason(rig: Rig, pool: ThreadPoolExecutor) -> None:
    plan = rig.started("sleepy", tasks=2)
    rig.deployer.trouble = Refused("no such image")
    dispatcher(rig, pool).dispatch()
    child = rig.details(plan).tasks[1]
    assert (child.status, child.reason, child.message) == (TaskStatus.FAILED, "deployment_refused", "no such image")


def stop(rig: Rig, plan: RunPlan) -> None:
    step = LogCancellation(run=plan.run, stop=StopRequest(actor="ann"), asked_at=datetime.now(UTC))
    rig.do(rig.stopping.add_cancellation_log_to_db, step)


def test_nothing_is_claimed_for_a_run_that_is_being_stopped(rig: Rig, pool: ThreadPoolExecutor) -> None:
    plan = rig.started("sleepy", tasks=4)
    stop(rig, plan)
    assert dispatcher(rig, pool).dispatch() == 0
    assert jobs(rig, plan) == 1


@pytest.mark.parametrize(("given", "stored"), [(None, "stopped"), ("deployment_refused", "deployment_refused")])
def test_tasks_without_a_job_end_with_the_given_reason(rig: Rig, given: str | None, stored: str) -> None:
    plan = rig.started("sleepy", tasks=2)
    rig.do(rig.stopping.cancel_queued_tasks, CloseRun(run=plan.run, reason=given))
    child = rig.details(plan).tasks[1]
    assert (child.status, child.reason) == (TaskStatus.STOPPED, stored)


def test_a_job_made_while_the_run_is_stopped_is_ended_by_its_dispatcher(
    rig: Rig, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = rig.started("sleepy", tasks=2)
    deploy = rig.deployer.deploy

    def stopped_meanwhile(request: DeploymentRequest) -> Deployment:
        deployment = deploy(request)
        stop(rig, plan)
        return deployment

    monkeypatch.setattr(rig.deployer, "deploy", stopped_meanwhile)
    dispatcher(rig, pool).dispatch()

    def ended() -> bool:
        job = rig.bench.cluster.look(plan.run.run_uid).jobs[1, 1]
        return job.phase is JobPhase.FAILED and bool(job.stop_asked)

    until(ended, "the job to be ended")


def test_a_job_whose_task_is_over_without_it_is_ended_by_whoever_made_it(
    rig: Rig, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its claim was lost, and its run goes on: no look would ever expect this job."""
    plan = rig.started("sleepy", tasks=2)
    deploy = rig.deployer.deploy

    def over_meanwhile(request: DeploymentRequest) -> Deployment:
        deployment = deploy(request)
        [row] = rig.tasks.rows(plan.run.run_id, [request.task])
        failed = TaskChange(task=row.task, attempt=row.attempt, version=row.version, status=TaskStatus.FAILED)
        rig.tasks.sync(plan.run, [failed])
        return deployment

    monkeypatch.setattr(rig.deployer, "deploy", over_meanwhile)
    assert dispatcher(rig, pool).dispatch() == 0
    until(lambda: rig.bench.cluster.look(plan.run.run_uid).jobs[1, 1].stop_asked, "the job to be asked to end")
    assert not rig.bench.cluster.look(plan.run.run_uid).jobs[0, 1].stop_asked


def test_what_is_in_the_way_of_one_deployment_keeps_none_of_the_others(
    rig: Rig, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = rig.started("sleepy", tasks=4)
    broken, deployed, deploy = threading.Event(), rig.claims.deployed, rig.deployer.deploy

    def recorded(claim: Claim, deployment: Deployment) -> Intent | None:
        if claim.task == 1:
            broken.set()
            raise TemporaryError("the database does not answer")
        return deployed(claim, deployment)

    def made(request: DeploymentRequest) -> Deployment:
        assert request.task == 1 or broken.wait(60)
        return deploy(request)

    monkeypatch.setattr(rig.claims, "deployed", recorded)
    monkeypatch.setattr(rig.deployer, "deploy", made)
    dispatching = dispatcher(rig, pool)
    assert dispatching.dispatch() == 2, "and no request is under way any more"
    assert statuses(rig, plan) == [TaskStatus.PENDING, TaskStatus.DEPLOYING, TaskStatus.PENDING, TaskStatus.PENDING]
    with pytest.raises(TemporaryError):
        dispatching.dispatch()
    monkeypatch.setattr(rig.claims, "deployed", deployed)
    assert dispatching.dispatch() == 1
    assert jobs(rig, plan) == 4
