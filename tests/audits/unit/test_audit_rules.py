"""What disagrees, and what is only a moment old or unknown?"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from crawler_lifecycle.audits.rules.handovers import is_too_old, owed_export, owed_kinds, owed_notice
from crawler_lifecycle.audits.rules.runs import (
    Step,
    cluster_has_all_jobs,
    disputed,
    is_older_than_jobs,
    look_overdue,
    steps,
    unsupervised,
)
from crawler_lifecycle.model.audits import KINDS, AuditPage, AuditPart, FindingKind, PartReport
from crawler_lifecycle.model.looks import EndRequest, JobKey, JobLook, JobPhase, Look, Pods, Presence, TaskRow
from crawler_lifecycle.model.naming import event_id
from crawler_lifecycle.model.reasons import POD_OVERDUE
from crawler_lifecycle.model.states import ExportState, RunStatus, TaskStatus
from crawler_lifecycle.model.supervision import AuditedRun, AuditPatience, ListedJob, WorkflowInfo

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
PATIENCE = AuditPatience()
AN_HOUR_AGO = NOW - timedelta(hours=1)
A_MOMENT_AGO = NOW - timedelta(seconds=5)
MISSING = WorkflowInfo(is_open=False, end="missing")
TERMINATED = WorkflowInfo(is_open=False, end="terminated", ended_at=AN_HOUR_AGO)


def a_run(status: RunStatus = RunStatus.PROCESSING, **more: object) -> AuditedRun:
    run = AuditedRun(
        run_id=7,
        run_uid=str(uuid4()),
        crawler="books",
        status=status,
        reason=None,
        workflow_id="crawl-1",
        supervisor_run_id="first",
        epoch=1,
        begun_at=AN_HOUR_AGO,
        finished_at=None,
        next_look_at=None,
        changed_at=A_MOMENT_AGO,
        export_state=None,
        end_number=0,
    )
    return replace(run, **more)  # type: ignore[arg-type]


def over(**more: object) -> AuditedRun:
    ended = {"reason": "all_succeeded", "finished_at": AN_HOUR_AGO, "end_number": 1, "export_state": ExportState.DONE}
    return a_run(RunStatus.COMPLETED, **ended | more)


@pytest.mark.parametrize("workflow", [MISSING, TERMINATED, replace(TERMINATED, end="timed_out")])
@pytest.mark.parametrize("status", [status for status in RunStatus if not status.is_over])
def test_a_run_without_an_open_workflow(workflow: WorkflowInfo, status: RunStatus) -> None:
    run = a_run(status)
    found = unsupervised(run, run, workflow, NOW, PATIENCE)
    assert found is not None
    assert (found.kind, found.run_id, found.problem) == (FindingKind.UNSUPERVISED, 7, None)
    assert ("terminated" in found.message) == (workflow is TERMINATED)


@pytest.mark.parametrize(
    ("again", "workflow"),
    [
        ({}, WorkflowInfo(is_open=True)),
        ({}, replace(TERMINATED, ended_at=A_MOMENT_AGO)),
        ({"begun_at": A_MOMENT_AGO}, MISSING),
        ({"begun_at": A_MOMENT_AGO}, TERMINATED),
        ({"epoch": 2}, TERMINATED),
        ({"status": RunStatus.COMPLETED}, TERMINATED),
        (None, MISSING),
    ],
    ids=["open", "ended a moment ago", "began a moment ago", "taken over a moment ago", "taken over", "over", "gone"],
)
def test_what_may_be_a_lag_is_left_alone(again: dict[str, object] | None, workflow: WorkflowInfo) -> None:
    run = a_run()
    assert unsupervised(run, None if again is None else replace(run, **again), workflow, NOW, PATIENCE) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("end", ["completed", "canceled"])
def test_after_a_restore_what_has_ended_well_is_told_and_not_done_again(end: str) -> None:
    run, well = a_run(), WorkflowInfo(is_open=False, end=end, ended_at=AN_HOUR_AGO, first_execution="first")
    found = unsupervised(run, run, well, NOW, PATIENCE)
    assert found is not None
    assert found.problem is not None
    assert "old copy" in found.problem
    later = replace(well, first_execution="later", ended_at=NOW - timedelta(minutes=30))
    for same in (replace(later, requested_run_id=run.run_id), replace(later, requested_run_id=0)):
        found = unsupervised(run, run, same, NOW, PATIENCE)
        assert found is not None
        assert found.problem is not None
    others = (
        replace(well, end="terminated"),
        replace(later, requested_run_id=run.run_id, end="terminated"),
        replace(later, requested_run_id=None),
        replace(later, requested_run_id=8),  # which went elsewhere: it was not its own
        replace(
            later, requested_run_id=run.run_id, ended_at=AN_HOUR_AGO
        ),  # before the run got the supervisor that is on record
    )
    for other in others:
        found = unsupervised(run, run, other, NOW, PATIENCE)
        assert found is not None
        assert found.problem is None


def a_job(task: int, attempt: int = 1, phase: JobPhase = JobPhase.SUCCEEDED) -> JobLook:
    return JobLook(task=task, attempt=attempt, uid=f"{task}-{attempt}", name=f"{task}-{attempt}", phase=phase)


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ([a_job(0), a_job(1)], True),
        ([a_job(0), a_job(1), a_job(2)], True),
        ([a_job(0), a_job(1, phase=JobPhase.RUNNING)], True),
        ([a_job(0), a_job(1, phase=JobPhase.UNCLEAR)], False),
        ([a_job(0)], False),
        ([a_job(0), a_job(1), a_job(1, attempt=2)], False),
        ([a_job(0), a_job(1), a_job(2, attempt=2)], False),
        ([a_job(0), a_job(1), a_job(3)], False),
    ],
)
def test_which_runs_the_cluster_still_tells_of(jobs: list[JobLook], expected: bool) -> None:
    """The first task runs, the second is queued, the third is over."""
    rows = [
        TaskRow(task=task, status=status, attempt=1, version=1)
        for task, status in enumerate((TaskStatus.RUNNING, TaskStatus.QUEUED, TaskStatus.SUCCEEDED))
    ]
    look = Look(complete=True, jobs={(job.task, job.attempt): job for job in jobs})
    assert cluster_has_all_jobs(look, rows) is expected
    assert not cluster_has_all_jobs(replace(look, complete=False), rows)


def test_a_workflow_id_that_is_taken_by_something_else_is_told() -> None:
    run = a_run()
    found = unsupervised(run, run, WorkflowInfo(is_open=True, is_ours=False), NOW, PATIENCE)
    assert found is not None
    assert found.message.endswith("its workflow id is taken by an open workflow of another type")
    assert found.problem is not None


def test_a_look_that_is_long_overdue() -> None:
    late = a_run(next_look_at=NOW - timedelta(minutes=21))
    found = look_overdue(late, NOW, PATIENCE)
    assert found is not None
    assert found.kind is FindingKind.LOOK_OVERDUE
    assert look_overdue(a_run(next_look_at=NOW - timedelta(minutes=19)), NOW, PATIENCE) is None
    assert look_overdue(a_run(RunStatus.STOPPING, next_look_at=AN_HOUR_AGO), NOW, PATIENCE) is None, (
        "of before the stop"
    )
    assert look_overdue(a_run(), NOW, PATIENCE) is None


@pytest.mark.parametrize("status", [RunStatus.INITIALIZING, RunStatus.PROCESSING, RunStatus.STOPPING])
def test_a_stuck_workflow_where_no_look_is_announced(status: RunStatus) -> None:
    stuck = a_run(status, changed_at=NOW - timedelta(minutes=21))
    found = look_overdue(stuck, NOW, PATIENCE)
    assert found is not None
    assert found.kind is FindingKind.LOOK_OVERDUE
    assert status in found.message
    assert look_overdue(replace(stuck, changed_at=NOW - timedelta(minutes=19)), NOW, PATIENCE) is None


def test_a_stop_does_not_hide_that_a_workflow_is_stuck() -> None:
    stopped = a_run(RunStatus.STOPPING, next_look_at=NOW + timedelta(minutes=1), changed_at=AN_HOUR_AGO)
    assert look_overdue(stopped, NOW, PATIENCE) is not None
    waiting = a_run(next_look_at=NOW + timedelta(minutes=1), changed_at=AN_HOUR_AGO)
    assert look_overdue(waiting, NOW, PATIENCE) is None, "its next look is to come"


def test_exports_that_are_left() -> None:
    pending = owed_export(over(export_state=ExportState.PENDING), None, NOW, PATIENCE)
    failed = owed_export(over(export_state=ExportState.FAILED), AN_HOUR_AGO, NOW, PATIENCE)
    assert pending is not None
    assert failed is not None
    assert (pending.kind, failed.kind) == (FindingKind.EXPORT_PENDING, FindingKind.EXPORT_FAILED)
    assert owed_export(over(export_state=ExportState.FAILED), A_MOMENT_AGO, NOW, PATIENCE) is None
    assert owed_export(over(export_state=ExportState.PENDING, finished_at=A_MOMENT_AGO), None, NOW, PATIENCE) is None
    assert owed_export(over(), None, NOW, PATIENCE) is None
    assert is_too_old(over(finished_at=NOW - timedelta(days=8)), NOW, PATIENCE)
    assert not is_too_old(over(), NOW, PATIENCE)


@pytest.mark.parametrize(("reason", "kind"), [("all_succeeded", "finished"), ("stopped_forced", "stopped")])
def test_a_closing_notice_that_was_not_delivered(reason: str, kind: str) -> None:
    run = over(reason=reason)
    lost, late = (event_id(run.run_uid, f"log:{event}:{kind}:1") for event in ("undelivered", "delivered"))
    found = owed_notice(run, {lost}, NOW, PATIENCE)
    assert found is not None
    assert kind in found.message
    assert owed_notice(run, {lost, late}, NOW, PATIENCE) is None
    assert owed_notice(run, {event_id(run.run_uid, "log:undelivered:started:1")}, NOW, PATIENCE) is None
    assert owed_notice(replace(run, end_number=2), {lost}, NOW, PATIENCE) is None, "of an earlier end"
    assert owed_notice(replace(run, finished_at=None), {lost}, NOW, PATIENCE) is None, "reopened since"


def test_what_is_owed_whoever_is_at_it() -> None:
    exports = {FindingKind.EXPORT_PENDING, FindingKind.EXPORT_FAILED}
    done, failed = over(finished_at=A_MOMENT_AGO), over(export_state=ExportState.FAILED, finished_at=A_MOMENT_AGO)
    lost, late = (event_id(done.run_uid, f"log:{event}:finished:1") for event in ("undelivered", "delivered"))
    assert owed_kinds(done, ()) == set()
    assert owed_kinds(failed, ()) == exports
    assert owed_kinds(done, {lost}) == {FindingKind.UNDELIVERED}
    assert owed_kinds(done, {lost, late}) == set()


def test_whose_jobs_are_looked_at() -> None:
    live, just_over, long_over = a_run(), over(finished_at=A_MOMENT_AGO), over()
    uids = {"unknown": str(uuid4()), "just made": str(uuid4()), "undated": str(uuid4())}
    runs = {run.run_uid: run for run in (live, just_over, long_over)}
    jobs = {uid: [ListedJob("job", uid, (0, 1), AN_HOUR_AGO)] for uid in (*runs, uids["unknown"])}
    jobs[uids["just made"]] = [ListedJob("job", uids["just made"], (0, 1), A_MOMENT_AGO)]
    jobs[uids["undated"]] = [ListedJob("job", uids["undated"], (0, 1))]
    assert set(disputed(jobs, runs, NOW, PATIENCE)) == {long_over.run_uid, uids["unknown"], uids["undated"]}


@pytest.mark.parametrize(
    ("key", "made_after", "later"),
    [((3, 2), -60, False), ((3, 2), 600, False), ((3, 2), 1200, True), ((3, 3), -60, True), ((4, 1), -60, True)],
    ids=["before the end", "by a request that was late", "long after", "of a later attempt", "of a task nobody knows"],
)
def test_a_job_that_is_later_than_its_row(key: JobKey, made_after: int, later: bool) -> None:
    run = over()
    old = ListedJob("old", run.run_uid, (0, 1))
    job = ListedJob("job", run.run_uid, key, AN_HOUR_AGO + timedelta(seconds=made_after))
    assert is_older_than_jobs(run, [old, job], {0: 1, 3: 2}, PATIENCE) is later


@pytest.mark.parametrize(
    ("job", "asked", "insisted"),
    [
        ({"phase": JobPhase.RUNNING}, Step.STOP, Step.KILL),
        ({"phase": JobPhase.WAITING}, Step.STOP, Step.KILL),
        ({"phase": JobPhase.UNCLEAR}, Step.STOP, Step.KILL),
        ({"phase": JobPhase.ENDING}, Step.STOP, Step.KILL),
        ({"phase": JobPhase.SUCCEEDED}, Step.KILL, Step.KILL),
        ({"phase": JobPhase.SUCCEEDED, "pods": Pods.ENDED}, Step.REMOVE, Step.REMOVE),
        ({"phase": JobPhase.FAILED, "pods": Pods.NONE, "presence": Presence.BEING_DELETED}, None, None),
    ],
)
def test_what_a_job_needs(job: dict[str, object], asked: Step | None, insisted: Step | None) -> None:
    seen = JobLook(0, 1, "uid", "job", **job)  # type: ignore[arg-type]
    look = Look(complete=True, jobs={(0, 1): seen, (1, 1): replace(seen, task=1)}, keeps_ended_jobs=True)
    assert steps(look, [(0, 1), (5, 1)]) == ({(0, 1): asked} if asked else {})
    assert steps(look, [(0, 1)], acted=True, requested=True) == ({(0, 1): insisted} if insisted else {})


def test_no_ended_job_is_removed_where_ended_jobs_take_no_room() -> None:
    ended = JobLook(0, 1, "uid", "job", JobPhase.SUCCEEDED, pods=Pods.NONE)
    assert steps(Look(complete=True, jobs={(0, 1): ended}), [(0, 1)]) == {}


def test_only_those_that_were_asked_to_end_are_made_to() -> None:
    running = JobLook(0, 1, "uid", "job", JobPhase.RUNNING)
    asked, late = replace(running, task=1, end_request=EndRequest.TO_JOB), replace(running, task=2, cause=POD_OVERDUE)
    look = Look(complete=True, jobs={(job.task, 1): job for job in (running, asked, late)})
    first = {(0, 1): Step.STOP, (1, 1): Step.STOP, (2, 1): Step.KILL}
    assert steps(look, look.jobs) == first
    assert steps(look, look.jobs, acted=True) == first | {(1, 1): Step.KILL}
    assert set(steps(look, look.jobs, acted=True, requested=True).values()) == {Step.KILL}


def test_every_kind_belongs_to_one_part() -> None:
    kinds = [kind for part in AuditPart for kind in KINDS[part]]
    assert sorted(kinds) == sorted(FindingKind)


def test_pages_add_up() -> None:
    report = PartReport().with_page(AuditPage(examined=2, found={FindingKind.UNSUPERVISED: 1}, acted=1))
    report = report.with_page(AuditPage(examined=1, found={FindingKind.LOOK_OVERDUE: 1}, unknown=4))
    expected = {FindingKind.UNSUPERVISED: 1, FindingKind.LOOK_OVERDUE: 1}
    assert report == PartReport(examined=3, found=expected, acted=1, unknown=4)
