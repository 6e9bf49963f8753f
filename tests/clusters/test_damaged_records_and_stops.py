import time
from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from crawler_lifecycle.clusters.local import processes
from crawler_lifecycle.clusters.local.looking import LocalObserver
from crawler_lifecycle.clusters.local.records import EndRecord, UnreadableRecord
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.model.deployment import DeploymentRequest
from crawler_lifecycle.model.looks import JobKey, JobLook, JobPhase
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.run_plan import RunInput, RunPlan
from crawler_lifecycle.model.states import ALIVE, TaskStatus
from crawler_lifecycle.model.task_changes import LookAt, StatusWrite
from crawler_lifecycle.runs.model import LogCancellation, StopTasks
from tests.kit.clusters.clusters import LocalBench
from tests.kit.service.rig import Rig
from tests.kit.waiting import until

pytestmark = pytest.mark.regression(
    "One damaged record kept every job of its run from being stopped, and the stop from ever being proved"
)

SLEEPS = "echo up > up-$CRAWL_TASK; exec sleep 1000"
ORDERS = [((0, 1), (1, 1)), ((1, 1), (0, 1))]
Jobs = Sequence[JobKey]


def two_running(local: LocalBench) -> tuple[DeploymentRequest, DeploymentRequest]:
    run_uid = str(uuid4())
    one, other = local.request(SLEEPS, run_uid=run_uid), local.request(SLEEPS, run_uid=run_uid, task=1)
    for request in (one, other):
        local.cluster.deploy(request)
        local.until_file(request, f"up-{request.task}")
        local.runner(request)
    return one, other


def damage(local: LocalBench, request: DeploymentRequest, *records: str) -> None:
    for name in records:
        (local.folder_of(request).path / name).write_bytes(b"{")


def named(request: DeploymentRequest, local: LocalBench) -> int:
    return len(processes.of_name(processes.survey(), local.folder_of(request).path.name))


def status_after_a_look(rig: Rig, plan: RunPlan) -> TaskStatus:
    """Of the main job's task."""
    active = rig.do(rig.reconciliation.get_active_running_tasks, RunInput(run=plan.run))
    found = rig.do(rig.reconciliation.get_history_statuses_to_sync, LookAt(run=plan.run, active=active))
    rig.do(rig.reconciliation.sync_statuses, StatusWrite(run=plan.run, changes=found.changes))
    return rig.details(plan).tasks[0].status


def until_gone(local: LocalBench, request: DeploymentRequest) -> JobLook:
    def gone() -> JobLook | None:
        job = local.job(request)
        return job if job and job.gone else None

    return until(gone, f"{request.key} to be gone")


@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("jobs", ORDERS)
@pytest.mark.parametrize("records", [("spec.json",), ("started.json",), ("spec.json", "started.json")])
@pytest.mark.long
def test_a_job_with_damaged_records_is_ended_and_so_are_the_others(
    local: LocalBench, records: tuple[str, ...], jobs: Jobs, end: str
) -> None:
    bad, good = two_running(local)
    damage(local, bad, *records)
    getattr(local.cluster, end)(bad.run_uid, jobs)
    assert local.until_ended(good).stop_asked
    assert until_gone(local, bad).phase is JobPhase.FAILED  # its runner knew all that it had to
    assert named(bad, local) == named(good, local) == 0


def test_a_job_that_ends_while_its_damaged_records_are_read_is_seen_as_it_ended(
    local: LocalBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = local.request("exit 3")
    local.cluster.deploy(request)
    local.until_ended(request)
    damage(local, request, "spec.json", "started.json")
    monkeypatch.setattr(LocalObserver, "_look_at", _read_before_its_end)
    job = until_gone(local, request)
    assert (job.phase, job.exit_code) == (JobPhase.FAILED, 3)


def _read_before_its_end(*_: object) -> None:
    raise UnreadableRecord("spec.json cannot be read")


def test_a_job_without_a_runner_whose_records_say_nothing_is_found_by_its_name(local: LocalBench) -> None:
    bad, good = two_running(local)
    local.kill_runner(bad)
    damage(local, bad, "spec.json", "started.json")
    job = local.job(bad)
    assert job
    assert (job.phase, job.gone, named(bad, local)) == (JobPhase.UNCLEAR, False, 1)
    local.cluster.kill(bad.run_uid, ORDERS[0])
    assert local.until_ended(good).gone
    assert until_gone(local, bad).phase is JobPhase.UNCLEAR
    assert named(bad, local) == 0
    assert local.cluster.log(bad.run_uid, 0, 1, 0).ended


@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_waiting_job_with_a_damaged_record_never_starts_once_it_was_stopped(
    local: LocalBench, is_there: bool, end: str
) -> None:
    request = local.request("echo x > started")
    local.client(capacity=0).deploy(request)
    path = local.folder_of(request).path / "spec.json"
    intact = path.read_bytes()
    path.write_bytes(b"{") if is_there else path.unlink()
    job = local.job(request)
    assert job
    assert (job.phase, job.gone) == (JobPhase.UNCLEAR, False)  # somebody may mend it: then it starts
    for _ in range(2):
        getattr(local.cluster, end)(request.run_uid, [(0, 1)])
    job = local.job(request)
    assert job
    assert (job.phase, job.gone) == (JobPhase.UNCLEAR, True)
    assert not list(local.layout.waiting.iterdir())
    path.write_bytes(intact)
    local.cluster.deploy(request)
    assert local.until_ended(request).reason == "stopped_before_start"
    assert not (local.files(request) / "started").exists()


@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("jobs", ORDERS)
def test_a_wish_that_cannot_be_written_is_told_when_all_are_ended(local: LocalBench, jobs: Jobs, end: str) -> None:
    bad, good = two_running(local)
    (local.folder_of(bad).path / "stop.json").mkdir()
    with pytest.raises(TemporaryError, match=local.folder_of(bad).path.name):
        getattr(local.cluster, end)(bad.run_uid, jobs)
    for request in (bad, good):
        assert local.until_ended(request).gone


def test_a_damaged_wish_is_written_anew(local: LocalBench) -> None:
    bad, _ = two_running(local)
    damage(local, bad, "stop.json")
    local.cluster.stop(bad.run_uid, [(0, 1)])
    assert local.folder_of(bad).stop()
    assert local.until_ended(bad).exit_code == 143


def test_a_place_is_free_when_nothing_is_left_of_a_job_with_damaged_records(local: LocalBench) -> None:
    local.cluster = local.client(capacity=1)
    bad, other = local.request("echo up > up; exec sleep 1000"), local.request("exit 0")
    local.cluster.deploy(bad)
    local.until_file(bad, "up")
    local.kill_runner(bad)
    damage(local, bad, "started.json")
    local.cluster.deploy(other)
    job = local.job(other)
    assert job
    assert job.phase is JobPhase.WAITING
    local.cluster.kill(bad.run_uid, [(0, 1)])
    until_gone(local, bad)
    local.cluster.place_waiting()
    assert local.until_ended(other).exit_code == 0


def test_what_a_runner_had_to_leave_behind_is_ended_and_then_gone(local: LocalBench) -> None:
    request = local.request("echo up > up; exec sleep 1000")
    local.cluster.deploy(request)
    local.until_file(request, "up")
    spec = local.folder_of(request).spec()
    assert spec
    local.kill_runner(request)
    local.folder_of(request).write(
        EndRecord(spec.uid, spec.installation, time.time(), 0, None, None, None, stop_asked=False, left_over=1)
    )
    job = local.job(request)
    assert job
    assert (job.phase, job.gone) == (JobPhase.SUCCEEDED, False)
    local.cluster.kill(request.run_uid, [(0, 1)])
    assert until_gone(local, request).phase is JobPhase.SUCCEEDED


def test_the_stop_of_a_run_with_damaged_records_is_proved(rig: Rig) -> None:
    plan = rig.started("sleepy", tasks=2)
    rig.deploy_children(plan)
    request = rig.bench.request("", run_uid=plan.run.run_uid)
    until(lambda: named(request, rig.bench), "the job to run")
    rig.bench.kill_runner(request)
    damage(rig.bench, request, "spec.json", "started.json")
    assert status_after_a_look(rig, plan) in ALIVE, "it runs, and nobody asked for its end"
    stop = LogCancellation(run=plan.run, stop=StopRequest(), asked_at=datetime.now(UTC))
    rig.do(rig.stopping.add_cancellation_log_to_db, stop)

    def is_over() -> bool:
        rig.do(rig.stopping.k8_stop_task, StopTasks(run=plan.run))
        return status_after_a_look(rig, plan) not in ALIVE

    until(is_over, "the task to be over")
    main_job = rig.details(plan).tasks[0]
    assert (main_job.status, main_job.reason) == (TaskStatus.STOPPED, "stopped")
    assert named(request, rig.bench) == 0
