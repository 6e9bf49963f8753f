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
from crawler_lifecycle.model.run_plan import RunPlan
from crawler_lifecycle.model.states import Intent, TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange
from crawler_lifecycle.runs.model import LogCancellation
from crawler_lifecycle.runs.ports import Claim
from crawler_lifecycle.runs.processes.dispatcher import Dispatcher
from tests.house import House
from tests.waiting import until

THREADS = 4


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(THREADS) as pool:
        yield pool


def dispatcher(
    house: House, pool: ThreadPoolExecutor, most: int = 100, claim_for: timedelta = timedelta(seconds=60)
) -> Dispatcher:
    house.store.limits.change("installation", {"tasks": most}, None)
    return Dispatcher(house.claims, house.claim_deployer, claim_for, THREADS, pool)


def dispatch_all(dispatching: Dispatcher) -> int:
    total = 0
    while deployed := dispatching.dispatch():
        total += deployed
    return total


def statuses(house: House, plan: RunPlan) -> list[TaskStatus]:
    return [task.status for task in house.details(plan).tasks]


def causes(house: House, plan: RunPlan) -> set[str | None]:
    return {task.cause for task in house.details(plan).tasks if task.status is TaskStatus.QUEUED}


def jobs(house: House, plan: RunPlan) -> int:
    return len(house.bench.cluster.look(plan.run.run_uid).jobs)


def test_children_are_deployed_once_the_run_has_started(house: House, pool: ThreadPoolExecutor) -> None:
    waiting, plan = house.begin("sleepy", tasks=6), house.started("sleepy", tasks=6)
    assert dispatch_all(dispatcher(house, pool)) == 5
    assert statuses(house, plan) == [TaskStatus.PENDING] * 6
    assert statuses(house, waiting) == [TaskStatus.QUEUED] * 6
    assert dispatcher(house, pool).dispatch() == 0
    assert jobs(house, plan) == 6


def test_a_runs_limit_holds_and_is_the_cause(house: House, pool: ThreadPoolExecutor) -> None:
    plan = house.started("sleepy", tasks=6, max_parallel=3)
    dispatching = dispatcher(house, pool)
    assert dispatch_all(dispatching) == 2
    assert causes(house, plan) == {"run_limit"}
    since = {task.cause_since for task in house.details(plan).tasks if task.cause}
    dispatching.dispatch()
    assert {task.cause_since for task in house.details(plan).tasks if task.cause} == since


def test_the_installations_limit_is_shared_out(house: House, pool: ThreadPoolExecutor) -> None:
    big, small = house.started("sleepy", tasks=8), house.started("sleepy", tasks=3)
    dispatch_all(dispatcher(house, pool, most=6))
    assert jobs(house, big) + jobs(house, small) == 6
    assert jobs(house, small) == 3
    assert causes(house, big) == {"admission"}


def test_a_service_that_is_down_is_the_cause_and_its_return_is_used_at_once(
    house: House, pool: ThreadPoolExecutor
) -> None:
    plan = house.started("sleepy", tasks=3)
    dispatching = dispatcher(house, pool)
    house.deployer.trouble = TemporaryError("connection refused")
    assert dispatching.dispatch() == 0
    children = house.details(plan).tasks[1:]
    assert {(task.cause, task.message) for task in children} == {("scheduler_unavailable", "connection refused")}
    house.deployer.trouble = None
    assert dispatching.dispatch() == 2
    assert statuses(house, plan) == [TaskStatus.PENDING] * 3


def test_a_lost_answer_is_no_second_job(house: House, pool: ThreadPoolExecutor) -> None:
    plan = house.started("sleepy", tasks=4)
    dispatching = dispatcher(house, pool)
    house.deployer.loses_answers = True
    assert dispatching.dispatch() == 0
    house.deployer.loses_answers = False
    assert dispatching.dispatch() == 3
    assert jobs(house, plan) == 4


def test_what_a_dead_dispatcher_claimed_is_taken_up_by_the_next(house: House, pool: ThreadPoolExecutor) -> None:
    plan = house.started("sleepy", tasks=4)
    house.deployer.loses_answers = True
    dispatcher(house, pool, claim_for=timedelta(seconds=3)).dispatch()
    house.deployer.loses_answers = False
    other = dispatcher(house, pool)
    assert other.dispatch() == 0
    assert until(other.dispatch, "the claims to run out") == 3
    assert jobs(house, plan) == 4


def test_a_refusal_fails_the_task_with_its_reason(house: House, pool: ThreadPoolExecutor) -> None:
    plan = house.started("sleepy", tasks=2)
    house.deployer.trouble = Refused("no such image")
    dispatcher(house, pool).dispatch()
    child = house.details(plan).tasks[1]
    assert (child.status, child.reason, child.message) == (TaskStatus.FAILED, "deployment_refused", "no such image")


def stop(house: House, plan: RunPlan) -> None:
    step = LogCancellation(run=plan.run, stop=StopRequest(actor="ann"), asked_at=datetime.now(UTC))
    house.do(house.stopping.add_cancellation_log_to_db, step)


def test_nothing_is_claimed_for_a_run_that_is_being_stopped(house: House, pool: ThreadPoolExecutor) -> None:
    plan = house.started("sleepy", tasks=4)
    stop(house, plan)
    assert dispatcher(house, pool).dispatch() == 0
    assert jobs(house, plan) == 1


def test_a_job_made_while_the_run_is_stopped_is_ended_by_its_dispatcher(
    house: House, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = house.started("sleepy", tasks=2)
    deploy = house.deployer.deploy

    def stopped_meanwhile(request: DeploymentRequest) -> Deployment:
        deployment = deploy(request)
        stop(house, plan)
        return deployment

    monkeypatch.setattr(house.deployer, "deploy", stopped_meanwhile)
    dispatcher(house, pool).dispatch()

    def ended() -> bool:
        job = house.bench.cluster.look(plan.run.run_uid).jobs[1, 1]
        return job.phase is JobPhase.FAILED and bool(job.stop_asked)

    until(ended, "the job to be ended")


def test_a_job_whose_task_is_over_without_it_is_ended_by_whoever_made_it(
    house: House, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its claim was lost, and its run goes on: no look would ever expect this job."""
    plan = house.started("sleepy", tasks=2)
    deploy = house.deployer.deploy

    def over_meanwhile(request: DeploymentRequest) -> Deployment:
        deployment = deploy(request)
        [row] = house.tasks.rows(plan.run.run_id, [request.task])
        failed = TaskChange(task=row.task, attempt=row.attempt, version=row.version, status=TaskStatus.FAILED)
        house.tasks.sync(plan.run, [failed])
        return deployment

    monkeypatch.setattr(house.deployer, "deploy", over_meanwhile)
    assert dispatcher(house, pool).dispatch() == 0
    until(lambda: house.bench.cluster.look(plan.run.run_uid).jobs[1, 1].stop_asked, "the job to be asked to end")
    assert not house.bench.cluster.look(plan.run.run_uid).jobs[0, 1].stop_asked


def test_what_is_in_the_way_of_one_deployment_keeps_none_of_the_others(
    house: House, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = house.started("sleepy", tasks=4)
    broken, deployed, deploy = threading.Event(), house.claims.deployed, house.deployer.deploy

    def recorded(claim: Claim, deployment: Deployment) -> Intent | None:
        if claim.task == 1:
            broken.set()
            raise TemporaryError("the database does not answer")
        return deployed(claim, deployment)

    def made(request: DeploymentRequest) -> Deployment:
        assert request.task == 1 or broken.wait(60)
        return deploy(request)

    monkeypatch.setattr(house.claims, "deployed", recorded)
    monkeypatch.setattr(house.deployer, "deploy", made)
    dispatching = dispatcher(house, pool)
    assert dispatching.dispatch() == 2, "and no request is under way any more"
    assert statuses(house, plan) == [TaskStatus.PENDING, TaskStatus.DEPLOYING, TaskStatus.PENDING, TaskStatus.PENDING]
    with pytest.raises(TemporaryError):
        dispatching.dispatch()
    monkeypatch.setattr(house.claims, "deployed", deployed)
    assert dispatching.dispatch() == 1
    assert jobs(house, plan) == 4
