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
from tests.kit.service.rig import Rig

pytestmark = pytest.mark.regression(
    "A pause did not hold runs with a permit and no job: hundreds of jobs were deployed in the pause"
)

DOWN = TemporaryError("connection refused")
PAUSED = "the installation is paused: an upgrade"
THREADS = 4


@pytest.fixture
def dispatcher(rig: Rig) -> Iterator[Dispatcher]:
    rig.bench.cluster.place_waiting()  # there is a cluster
    with ThreadPoolExecutor(THREADS) as pool:
        yield Dispatcher(rig.claims, rig.claim_deployer, timedelta(seconds=60), THREADS, pool)


def begin(rig: Rig, plan: RunPlan) -> DeploymentOutcome:
    return rig.do(rig.deployment.run_onetime_crawler, RunInput(run=plan.run))


def pause(rig: Rig) -> None:
    rig.store.limits.pause("installation", "an upgrade", "ann")


def let_the_requests_pass(rig: Rig) -> None:
    """So much time goes by that no request for a job is on its way any more."""
    with rig.database.transaction() as connection:
        claims = update(task_histories).where(task_histories.c.claim_expires_at.is_not(None))
        connection.execute(claims.values(claim_expires_at=datetime.now(UTC) - timedelta(seconds=61)))


def run_of(rig: Rig, plan: RunPlan) -> RunRecord:
    return rig.details(plan).run


def task_of(rig: Rig, plan: RunPlan, number: int = 0) -> TaskRecord:
    return rig.details(plan).tasks[number]


def requests(rig: Rig, plan: RunPlan) -> int:
    return sum(request.run_uid == plan.run.run_uid for request in rig.deployer.requests)


def test_runs_with_a_permit_and_no_job_wait_in_the_pause(rig: Rig, dispatcher: Dispatcher) -> None:
    plans = [rig.begin("sleepy") for _ in range(3)]
    rig.deployer.trouble = DOWN
    assert {begin(rig, plan).cause for plan in plans} == {"scheduler_unavailable"}
    pause(rig)
    rig.deployer.trouble = None
    for plan in plans:
        outcome = begin(rig, plan)
        assert (outcome.job_id, outcome.held, outcome.cause, outcome.message) == (None, True, "paused", PAUSED)
        run = run_of(rig, plan)
        assert (run.waiting_cause, run.waiting_message, run.held_by) == ("paused", PAUSED, "installation")
        assert run.admitted_at, "a request may be on its way, so the permit stays"
    assert dispatcher.dispatch() == 0
    let_the_requests_pass(rig)
    assert dispatcher.dispatch() == 0
    assert dispatcher.dispatch() == 0
    for plan in plans:
        main = task_of(rig, plan)
        assert (main.status, main.cause, main.message, requests(rig, plan)) == (TaskStatus.QUEUED, "paused", None, 0)
        assert run_of(rig, plan).admitted_at is None
        assert begin(rig, plan).held
    (installation,) = rig.store.limits.all()
    assert (installation.runs_begun, installation.tasks_in_cluster, installation.runs_held) == (0, 0, 3)
    rig.store.limits.resume("installation", "ann")
    assert dispatcher.dispatch() == 3
    assert {run_of(rig, plan).waiting_cause for plan in plans} == {None}


def test_a_worker_writes_the_run_back_into_the_line_without_a_dispatcher(rig: Rig, dispatcher: Dispatcher) -> None:
    plan = rig.begin("sleepy")
    rig.deployer.trouble = DOWN
    begin(rig, plan)
    pause(rig)
    let_the_requests_pass(rig)
    rig.deployer.trouble = None
    outcome = begin(rig, plan)
    assert (outcome.held, outcome.cause) == (True, "paused")
    assert (task_of(rig, plan).status, run_of(rig, plan).admitted_at) == (TaskStatus.QUEUED, None)
    assert run_of(rig, plan).waiting_cause == "paused"
    rig.store.limits.resume("installation", "ann")
    assert begin(rig, plan).job_id


def test_the_limits_of_time_stand_still_for_the_pause(rig: Rig, dispatcher: Dispatcher) -> None:
    plan = rig.begin("sleepy")
    rig.deployer.trouble = DOWN
    begin(rig, plan)
    pause(rig)
    begin(rig, plan)
    rig.do(rig.supervision.hold_limits, HoldLimits(run=plan.run, held=True, number=1))
    assert "the run waits for the end of a pause" in rig.details(plan).log[-1].message


def test_a_main_job_whose_answer_was_lost_is_found_and_watched(rig: Rig, dispatcher: Dispatcher) -> None:
    """The worker's next try finds the job. A dispatcher that finds the job nudges the workflow."""
    for by_dispatcher in (False, True):
        plan = rig.begin("sleepy")
        rig.deployer.loses_answers = True
        begin(rig, plan)
        pause(rig)
        rig.deployer.loses_answers = False
        (nudge,) = rig.claims.claim_nudges([plan.run.run_uid])
        assert begin(rig, plan).held
        let_the_requests_pass(rig)
        if by_dispatcher:
            assert dispatcher.dispatch() == 1
            numbers = {sent.run_id: sent.number for sent in rig.claims.unanswered_nudges()}
            assert numbers[plan.run.run_id] == nudge.number + 1
        outcome = begin(rig, plan)
        main = task_of(rig, plan)
        assert (main.status, main.job_uid) == (TaskStatus.PENDING, outcome.job_id)
        assert (requests(rig, plan), bool(outcome.job_id)) == (1, True)
        rig.store.limits.resume("installation", None)


def test_child_tasks_with_a_failed_request_wait_and_those_with_a_job_are_found(
    rig: Rig, dispatcher: Dispatcher
) -> None:
    plan = rig.started("sleepy", tasks=4)
    lost, *_ = rig.claims.claim_tasks(dispatcher.token, timedelta(seconds=60), 3)
    rig.deployer.deploy(lost.request)  # and the answer never comes
    pause(rig)
    assert dispatcher.dispatch() == 0
    let_the_requests_pass(rig)
    assert dispatcher.dispatch() == 1
    dispatcher.dispatch()
    states = [(task.status, task.cause) for task in rig.details(plan).tasks[1:]]
    assert states == [(TaskStatus.PENDING, None), (TaskStatus.QUEUED, "paused"), (TaskStatus.QUEUED, "paused")]
    assert requests(rig, plan) == 2
    assert run_of(rig, plan).admitted_at, "its main job runs"
    rig.store.limits.resume("installation", None)
    assert dispatcher.dispatch() == 2


def test_what_the_cluster_does_not_say_is_asked_again(rig: Rig, dispatcher: Dispatcher) -> None:
    plan, root = rig.begin("sleepy"), rig.bench.layout.root
    rig.deployer.loses_answers = True
    begin(rig, plan)
    pause(rig)
    rig.deployer.loses_answers = False
    let_the_requests_pass(rig)
    root.rename(root.with_name("elsewhere"))
    outcome = begin(rig, plan)
    main = task_of(rig, plan)
    root.with_name("elsewhere").rename(root)
    assert (outcome.held, outcome.cause, main.status, main.cause) == (True, "paused", TaskStatus.DEPLOYING, "paused")
    assert "whether the task has a job is not certain yet" in (main.message or "")
    assert run_of(rig, plan).admitted_at
    assert dispatcher.dispatch() == 0
    let_the_requests_pass(rig)
    assert dispatcher.dispatch() == 1
    assert (task_of(rig, plan).status, requests(rig, plan)) == (TaskStatus.PENDING, 1)


@pytest.mark.parametrize("remains", [{"phase": JobPhase.ENDING}, {"presence": Presence.ABSENT}])
def test_the_remains_of_a_job_are_no_job_and_no_proof(
    rig: Rig, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch, remains: dict[str, Any]
) -> None:
    plan = rig.begin("sleepy")
    rig.deployer.trouble = DOWN
    begin(rig, plan)
    pause(rig)
    let_the_requests_pass(rig)
    job = JobLook(**{"task": 0, "attempt": 1, "uid": "u", "name": "n", "phase": JobPhase.RUNNING, **remains})
    with monkeypatch.context() as patched:
        patched.setattr(rig.bench.cluster, "look", lambda *_: Look(complete=True, jobs={(0, 1): job}))
        assert begin(rig, plan).held
    main = task_of(rig, plan)
    assert (main.status, main.job_uid, main.cause) == (TaskStatus.DEPLOYING, None, "paused")


def test_a_stop_in_the_pause_ends_the_task(rig: Rig, dispatcher: Dispatcher) -> None:
    """The stop was asked for while the job was searched."""
    plan = rig.begin("sleepy")
    rig.deployer.trouble = DOWN
    begin(rig, plan)
    pause(rig)
    let_the_requests_pass(rig)
    claim = rig.claims.claim_main(plan.run, "supervisor:1", timedelta(seconds=60))
    assert isinstance(claim, Claim)
    assert claim.hold
    rig.store.runs.request_stop(plan.run.run_id, StopRequest(), datetime.now(UTC))
    rig.claims.put_back(claim, claim.hold)
    run = run_of(rig, plan)
    assert (task_of(rig, plan).status, run.held_by) == (TaskStatus.DEPLOYING, None)
