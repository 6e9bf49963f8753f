"""A pause did not hold the runs that had their permit but no job: after an outage of the scheduler service, hundreds of
jobs were deployed in a paused installation. Nor did it hold child tasks whose first request had failed."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import update

from crawler_lifecycle.database.schema import task_histories
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.model.looks import JobLook, JobPhase, Look, Presence
from crawler_lifecycle.model.records import RunRecord, TaskRecord
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.run_plan import RunInput, RunPlan
from crawler_lifecycle.model.states import TaskStatus
from crawler_lifecycle.runs.model import DeploymentOutcome, HoldLimits
from crawler_lifecycle.runs.ports import Claim
from crawler_lifecycle.runs.processes.dispatcher import Dispatcher
from tests.house import House

DOWN = TemporaryError("connection refused")
PAUSED = "the installation is paused: an upgrade"
THREADS = 4


@pytest.fixture
def dispatcher(house: House) -> Iterator[Dispatcher]:
    house.bench.cluster.place_waiting()  # there is a cluster
    with ThreadPoolExecutor(THREADS) as pool:
        yield Dispatcher(house.claims, house.claim_deployer, timedelta(seconds=60), THREADS, pool)


def begin(house: House, plan: RunPlan) -> DeploymentOutcome:
    return house.do(house.deployment.run_onetime_crawler, RunInput(run=plan.run))


def pause(house: House) -> None:
    house.store.limits.pause("installation", "an upgrade", "ann")


def let_the_requests_pass(house: House) -> None:
    """So much time goes by that no request for a job is on its way any more."""
    with house.database.transaction() as connection:
        claims = update(task_histories).where(task_histories.c.claim_expires_at.is_not(None))
        connection.execute(claims.values(claim_expires_at=datetime.now(UTC) - timedelta(seconds=61)))


def run_of(house: House, plan: RunPlan) -> RunRecord:
    return house.details(plan).run


def task_of(house: House, plan: RunPlan, number: int = 0) -> TaskRecord:
    return house.details(plan).tasks[number]


def requests(house: House, plan: RunPlan) -> int:
    return sum(request.run_uid == plan.run.run_uid for request in house.deployer.requests)


def test_runs_with_a_permit_and_no_job_wait_in_the_pause(house: House, dispatcher: Dispatcher) -> None:
    plans = [house.begin("sleepy") for _ in range(3)]
    house.deployer.trouble = DOWN
    assert {begin(house, plan).cause for plan in plans} == {"scheduler_unavailable"}
    pause(house)
    house.deployer.trouble = None
    for plan in plans:
        outcome = begin(house, plan)
        assert (outcome.job_id, outcome.held, outcome.cause, outcome.message) == (None, True, "paused", PAUSED)
        run = run_of(house, plan)
        assert (run.waiting_cause, run.waiting_message, run.held_by) == ("paused", PAUSED, "installation")
        assert run.admitted_at, "a request may be on its way, so the permit stays"
    assert dispatcher.dispatch() == 0
    let_the_requests_pass(house)
    assert dispatcher.dispatch() == 0
    assert dispatcher.dispatch() == 0
    for plan in plans:
        main = task_of(house, plan)
        assert (main.status, main.cause, main.message, requests(house, plan)) == (TaskStatus.QUEUED, "paused", None, 0)
        assert run_of(house, plan).admitted_at is None
        assert begin(house, plan).held
    (installation,) = house.store.limits.all()
    assert (installation.runs_begun, installation.tasks_in_cluster, installation.runs_held) == (0, 0, 3)
    house.store.limits.resume("installation", "ann")
    assert dispatcher.dispatch() == 3
    assert {run_of(house, plan).waiting_cause for plan in plans} == {None}


def test_a_worker_writes_the_run_back_into_the_line_without_a_dispatcher(house: House, dispatcher: Dispatcher) -> None:
    plan = house.begin("sleepy")
    house.deployer.trouble = DOWN
    begin(house, plan)
    pause(house)
    let_the_requests_pass(house)
    house.deployer.trouble = None
    outcome = begin(house, plan)
    assert (outcome.held, outcome.cause) == (True, "paused")
    assert (task_of(house, plan).status, run_of(house, plan).admitted_at) == (TaskStatus.QUEUED, None)
    assert run_of(house, plan).waiting_cause == "paused"
    house.store.limits.resume("installation", "ann")
    assert begin(house, plan).job_id


def test_the_limits_of_time_stand_still_for_the_pause(house: House, dispatcher: Dispatcher) -> None:
    plan = house.begin("sleepy")
    house.deployer.trouble = DOWN
    begin(house, plan)
    pause(house)
    begin(house, plan)
    house.do(house.supervision.hold_limits, HoldLimits(run=plan.run, held=True, number=1))
    assert "the run waits for the end of a pause" in house.details(plan).log[-1].message


def test_a_main_job_whose_answer_was_lost_is_found_and_watched(house: House, dispatcher: Dispatcher) -> None:
    """The worker's next try finds the job. A dispatcher that finds the job nudges the workflow."""
    for by_dispatcher in (False, True):
        plan = house.begin("sleepy")
        house.deployer.loses_answers = True
        begin(house, plan)
        pause(house)
        house.deployer.loses_answers = False
        (nudge,) = house.claims.claim_nudges([plan.run.run_uid])
        assert begin(house, plan).held
        let_the_requests_pass(house)
        if by_dispatcher:
            assert dispatcher.dispatch() == 1
            numbers = {sent.run_id: sent.number for sent in house.claims.unanswered_nudges()}
            assert numbers[plan.run.run_id] == nudge.number + 1
        outcome = begin(house, plan)
        main = task_of(house, plan)
        assert (main.status, main.job_uid) == (TaskStatus.PENDING, outcome.job_id)
        assert (requests(house, plan), bool(outcome.job_id)) == (1, True)
        house.store.limits.resume("installation", None)


def test_child_tasks_with_a_failed_request_wait_and_those_with_a_job_are_found(
    house: House, dispatcher: Dispatcher
) -> None:
    plan = house.started("sleepy", tasks=4)
    lost, *_ = house.claims.claim_tasks(dispatcher.token, timedelta(seconds=60), 3)
    house.deployer.deploy(lost.request)  # and the answer never comes
    pause(house)
    assert dispatcher.dispatch() == 0
    let_the_requests_pass(house)
    assert dispatcher.dispatch() == 1
    dispatcher.dispatch()
    states = [(task.status, task.cause) for task in house.details(plan).tasks[1:]]
    assert states == [(TaskStatus.PENDING, None), (TaskStatus.QUEUED, "paused"), (TaskStatus.QUEUED, "paused")]
    assert requests(house, plan) == 2
    assert run_of(house, plan).admitted_at, "its main job runs"
    house.store.limits.resume("installation", None)
    assert dispatcher.dispatch() == 2


def test_what_the_cluster_does_not_say_is_asked_again(house: House, dispatcher: Dispatcher) -> None:
    plan, root = house.begin("sleepy"), house.bench.layout.root
    house.deployer.loses_answers = True
    begin(house, plan)
    pause(house)
    house.deployer.loses_answers = False
    let_the_requests_pass(house)
    root.rename(root.with_name("elsewhere"))
    outcome = begin(house, plan)
    main = task_of(house, plan)
    root.with_name("elsewhere").rename(root)
    assert (outcome.held, outcome.cause, main.status, main.cause) == (True, "paused", TaskStatus.DEPLOYING, "paused")
    assert "whether the task has a job is not certain yet" in (main.message or "")
    assert run_of(house, plan).admitted_at
    assert dispatcher.dispatch() == 0
    let_the_requests_pass(house)
    assert dispatcher.dispatch() == 1
    assert (task_of(house, plan).status, requests(house, plan)) == (TaskStatus.PENDING, 1)


@pytest.mark.parametrize("remains", [{"phase": JobPhase.ENDING}, {"presence": Presence.ABSENT}])
def test_the_remains_of_a_job_are_no_job_and_no_proof(
    house: House, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch, remains: dict[str, Any]
) -> None:
    plan = house.begin("sleepy")
    house.deployer.trouble = DOWN
    begin(house, plan)
    pause(house)
    let_the_requests_pass(house)
    job = JobLook(**{"task": 0, "attempt": 1, "uid": "u", "name": "n", "phase": JobPhase.RUNNING, **remains})
    with monkeypatch.context() as patched:
        patched.setattr(house.bench.cluster, "look", lambda *_: Look(complete=True, jobs={(0, 1): job}))
        assert begin(house, plan).held
    main = task_of(house, plan)
    assert (main.status, main.job_uid, main.cause) == (TaskStatus.DEPLOYING, None, "paused")


def test_a_stop_in_the_pause_ends_the_task(house: House, dispatcher: Dispatcher) -> None:
    """The stop was asked for while the job was searched."""
    plan = house.begin("sleepy")
    house.deployer.trouble = DOWN
    begin(house, plan)
    pause(house)
    let_the_requests_pass(house)
    claim = house.claims.claim_main(plan.run, "supervisor:1", timedelta(seconds=60))
    assert isinstance(claim, Claim)
    assert claim.hold
    house.store.runs.request_stop(plan.run.run_id, StopRequest(), datetime.now(UTC))
    house.claims.put_back(claim, claim.hold)
    run = run_of(house, plan)
    assert (task_of(house, plan).status, run.held_by) == (TaskStatus.DEPLOYING, None)
