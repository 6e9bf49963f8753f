"""Having the main job deployed: run_scheduled_crawler, run_onetime_crawler, get_main_job_status."""

from datetime import timedelta

import pytest
from sqlalchemy import update
from temporalio.runtime import MetricBuffer, Runtime, TelemetryConfig

from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.errors import Refused, TemporaryError
from crawler_lifecycle.model.deployment import Deployment, DeploymentRequest
from crawler_lifecycle.model.looks import JobPhase
from crawler_lifecycle.model.run_plan import RunInput, RunPlan
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from crawler_lifecycle.runs.ports import Claim
from crawler_lifecycle.runs.rules import verdict
from tests.kit.service.rig import DirectDeployer, Rig
from tests.kit.waiting import until


def _jobs(rig: Rig, plan: RunPlan) -> int:
    return len(rig.bench.cluster.look(plan.run.run_uid).jobs)


@pytest.mark.parametrize("name", ["run_onetime_crawler", "run_scheduled_crawler"])
def test_the_main_job_is_deployed_once(rig: Rig, name: str) -> None:
    plan = rig.begin("sleepy")
    deploy = getattr(rig.deployment, name)
    outcomes = {rig.do(deploy, RunInput(run=plan.run)).job_id for _ in range(3)}
    assert len(outcomes) == 1
    main = rig.details(plan).tasks[0]
    assert (main.status, main.job_uid) == (TaskStatus.PENDING, outcomes.pop())
    assert _jobs(rig, plan) == 1


def test_a_service_that_is_down_is_written_down_and_tried_again(rig: Rig) -> None:
    plan = rig.begin("sleepy")
    rig.deployer.trouble = TemporaryError("connection refused")
    outcome = rig.do(rig.deployment.run_onetime_crawler, RunInput(run=plan.run))
    assert (outcome.job_id, outcome.cause, outcome.refused) == (None, "scheduler_unavailable", False)
    run = rig.details(plan).run
    assert (run.waiting_cause, run.waiting_message) == ("scheduler_unavailable", "connection refused")
    rig.deployer.trouble = None
    assert rig.do(rig.deployment.run_onetime_crawler, RunInput(run=plan.run)).job_id
    assert rig.details(plan).run.waiting_cause is None


def test_a_quota_is_told_from_a_service_that_is_down(rig: Rig) -> None:
    plan = rig.begin("sleepy")
    rig.deployer.trouble = TemporaryError("exceeded quota", cause="quota")
    assert rig.do(rig.deployment.run_onetime_crawler, RunInput(run=plan.run)).cause == "quota"
    details = rig.details(plan)
    assert (details.run.waiting_cause, details.run.waiting_message) == ("quota", "exceeded quota")
    assert (details.tasks[0].status, details.tasks[0].cause) == (TaskStatus.DEPLOYING, "quota")


def test_a_look_that_finds_the_cluster_full_is_counted_by_its_cause(rig: Rig) -> None:
    buffer = MetricBuffer(100)
    rig.environment.metric_meter = Runtime(telemetry=TelemetryConfig(metrics=buffer)).metric_meter
    plan, deploy = rig.begin("sleepy"), rig.deployment.run_onetime_crawler
    rig.deployer.trouble = TemporaryError("exceeded quota", cause="quota")
    assert rig.do(deploy, RunInput(run=plan.run)).saturated is None
    since = rig.details(plan).run.waiting_since
    assert since
    long_ago = since - verdict.PATIENCE + timedelta(minutes=2)
    with rig.database.transaction() as connection:
        connection.execute(update(histories).values(waiting_since=long_ago))
    assert rig.do(deploy, RunInput(run=plan.run)).saturated is None
    with rig.database.transaction() as connection:
        connection.execute(update(histories).values(waiting_since=since - verdict.PATIENCE))
    assert buffer.retrieve_updates() == []
    assert rig.details(plan).run.waiting_message == "exceeded quota"
    assert rig.do(deploy, RunInput(run=plan.run)).saturated == "quota"
    assert rig.details(plan).run.waiting_message == "no capacity for over 5 minutes: exceeded quota"
    assert rig.details(plan).run.waiting_since == since - verdict.PATIENCE
    (counted,) = buffer.retrieve_updates()
    assert (counted.metric.name, counted.value) == ("crawler_saturated_looks", 1)
    assert counted.attributes.items() >= {"cause": "quota", "cluster": "default"}.items()


def test_a_job_that_admission_denies_says_so(rig: Rig) -> None:
    rig.bench.cluster.place_waiting()  # there is a cluster
    plan = rig.begin("sleepy")
    rig.deployer.trouble = Refused("the webhook says no", cause="admission_denied")
    assert rig.do(rig.deployment.run_onetime_crawler, RunInput(run=plan.run)).refused
    main = rig.details(plan).tasks[0]
    assert (main.status, main.reason, main.message) == (TaskStatus.FAILED, "admission_denied", "the webhook says no")


def test_a_refusal_of_a_job_that_is_not_there_is_final(rig: Rig) -> None:
    rig.bench.cluster.place_waiting()  # there is a cluster
    plan = rig.begin("sleepy")
    rig.deployer.trouble = Refused("no such image")
    for _ in range(2):
        assert rig.do(rig.deployment.run_onetime_crawler, RunInput(run=plan.run)).refused
    main = rig.details(plan).tasks[0]
    assert (main.status, main.reason, main.message) == (TaskStatus.FAILED, "deployment_refused", "no such image")


def test_a_job_that_is_there_is_taken_as_it_is_whatever_is_refused_now(rig: Rig) -> None:
    plan = rig.begin("sleepy")
    rig.deployer.loses_answers = True
    rig.do(rig.deployment.run_onetime_crawler, RunInput(run=plan.run))
    rig.deployer.trouble = Refused("the crawler was taken out of the catalogue")
    outcome = rig.do(rig.deployment.run_onetime_crawler, RunInput(run=plan.run))
    main = rig.details(plan).tasks[0]
    assert (outcome.refused, outcome.job_id) == (False, main.job_uid)
    assert (main.status, main.job_uid) == (
        TaskStatus.PENDING,
        rig.bench.cluster.look(plan.run.run_uid).jobs[0, 1].uid,
    )


@pytest.mark.parametrize("cause", ["job_changed", "labels_removed"])
def test_a_job_that_the_service_has_deleted_again_is_not_taken(rig: Rig, cause: str) -> None:
    """The cluster may list it for another moment."""
    plan = rig.begin("sleepy")
    rig.deployer.loses_answers = True
    rig.do(rig.deployment.run_onetime_crawler, RunInput(run=plan.run))
    rig.deployer.trouble = Refused("a webhook changes Jobs", cause=cause)
    outcome = rig.do(rig.deployment.run_onetime_crawler, RunInput(run=plan.run))
    assert (outcome.refused, outcome.job_id, outcome.cause) == (True, None, cause)


def test_a_job_of_another_request_is_not_taken(rig: Rig) -> None:
    """The service had compared the requests and said that they differ; the worker took the job all the same."""
    plan = rig.begin("sleepy")
    with pytest.MonkeyPatch.context() as other:
        other.setattr(DirectDeployer, "deploy", _of_another_command)
        rig.do(rig.deployment.run_onetime_crawler, RunInput(run=plan.run))
    outcome = rig.do(rig.deployment.run_onetime_crawler, RunInput(run=plan.run))
    assert (outcome.refused, outcome.job_id) == (True, None)
    main = rig.details(plan).tasks[0]
    assert (main.status, main.reason, main.job_uid) == (TaskStatus.FAILED, "deployment_refused", None)
    assert "for another request" in (main.message or "")


def _of_another_command(deployer: DirectDeployer, request: DeploymentRequest) -> Deployment:
    crawler = request.crawler.model_copy(update={"command": ["sleep", "50"]})
    deployer.bench.cluster.deploy(request.model_copy(update={"crawler": crawler}))
    raise TemporaryError("the answer was lost")


def test_a_job_that_was_made_although_the_answer_was_lost_is_found(rig: Rig) -> None:
    plan = rig.begin("sleepy")
    rig.deployer.loses_answers = True
    assert rig.do(rig.deployment.run_onetime_crawler, RunInput(run=plan.run)).job_id is None
    rig.deployer.loses_answers = False
    assert rig.do(rig.deployment.run_onetime_crawler, RunInput(run=plan.run)).job_id
    assert _jobs(rig, plan) == 1


def test_the_main_job_has_started_when_it_runs_or_has_run(rig: Rig) -> None:
    for crawler in ("sleepy", "books"):
        plan = rig.begin(crawler)
        rig.do(rig.deployment.run_onetime_crawler, RunInput(run=plan.run))
        until(
            lambda plan=plan: rig.do(rig.deployment.get_main_job_status, RunInput(run=plan.run)).started,  # type: ignore[misc]
            "the main job to start",
        )
        assert rig.details(plan).run.status is RunStatus.INITIALIZING


def test_a_main_job_that_waits_says_why_and_since_when(rig: Rig) -> None:
    first = rig.begin("sleepy")
    rig.bench.cluster = rig.bench.client(capacity=1)
    rig.do(rig.deployment.run_onetime_crawler, RunInput(run=first.run))
    plan = rig.begin("sleepy")
    small = rig.bench.client(capacity=1)
    for claim in [rig.claims.claim_main(plan.run, "test", rig.deployment.claim_for)]:
        assert isinstance(claim, Claim)
        rig.claims.deployed(claim, small.deploy(claim.request))
    assert small.look(plan.run.run_uid).jobs[0, 1].phase is JobPhase.WAITING
    statuses = [rig.do(rig.deployment.get_main_job_status, RunInput(run=plan.run)) for _ in range(2)]
    assert [status.started for status in statuses] == [False, False]
    assert statuses[0].cause == "capacity"
    assert statuses[0].since == statuses[1].since is not None
    assert rig.details(plan).run.waiting_cause == "capacity"


def test_a_main_job_that_is_not_there_has_vanished_but_an_outage_is_no_proof(rig: Rig) -> None:
    rig.started("sleepy")
    plan = rig.begin("sleepy")
    assert rig.do(rig.deployment.get_main_job_status, RunInput(run=plan.run)).vanished
    root = rig.bench.layout.root
    root.rename(root.with_name("elsewhere"))
    status = rig.do(rig.deployment.get_main_job_status, RunInput(run=plan.run))
    root.with_name("elsewhere").rename(root)
    assert (status.known, status.vanished) == (False, False)
