"""Whatever looks a task goes through, late, repeated, out of order, partial or strange: its row ends at the truth."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler_lifecycle.model.looks import EndRequest, JobLook, JobPhase, Look, Pods, Presence, TaskRow
from crawler_lifecycle.model.reasons import DELETED_EXTERNALLY, POD_TERMINATING
from crawler_lifecycle.model.states import Intent, TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange
from crawler_lifecycle.runs.rules.verdict import verdict, verdicts

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ROW = TaskRow(task=0, status=TaskStatus.RUNNING, attempt=1, version=5, job_uid="uid")
NOBODY_KNOWS = Look(complete=False, problem="the cluster does not answer")
NOTHING_THERE = Look(complete=True)


def seen(phase: JobPhase, **details: object) -> Look:
    job = JobLook(task=0, attempt=1, uid="uid", name="job", phase=phase)
    return Look(complete=True, jobs={(0, 1): replace(job, **details)})  # type: ignore[arg-type]


def applied(row: TaskRow, change: TaskChange | None) -> TaskRow:
    if change is None:
        return row
    return replace(
        row,
        status=change.status,
        version=row.version + 1,
        job_uid=change.job_uid,
        cause=change.cause,
        reason=change.reason,
        absent_count=change.absent_count,
    )


def after(row: TaskRow, *looks: Look, intent: Intent = Intent.RUN) -> TaskRow:
    for look in looks:
        row = applied(row, verdict(row, look, intent, NOW))
    return row


def test_who_told_a_task_to_end_is_not_forgotten_by_a_look_that_does_not_find_it() -> None:
    told = seen(JobPhase.ENDING, cause=POD_TERMINATING, end_request=EndRequest.TO_JOB)
    ended = after(ROW, told, NOTHING_THERE, seen(JobPhase.SUCCEEDED, exit_code=0, end_request=EndRequest.UNKNOWN))
    assert (ended.status, ended.reason) == (TaskStatus.FAILED, DELETED_EXTERNALLY)


@pytest.mark.parametrize(
    ("look", "status"),
    [
        (seen(JobPhase.SUCCEEDED, exit_code=0), TaskStatus.SUCCEEDED),
        (seen(JobPhase.FAILED, exit_code=3, reason="exit_3"), TaskStatus.FAILED),
        (seen(JobPhase.VANISHED, reason="runner_lost"), TaskStatus.LOST),
        (seen(JobPhase.ENDING), TaskStatus.STOPPING),
        (seen(JobPhase.RUNNING), TaskStatus.RUNNING),
        (seen(JobPhase.UNCLEAR), TaskStatus.RUNNING),
        (NOBODY_KNOWS, TaskStatus.RUNNING),
        (NOTHING_THERE, TaskStatus.RUNNING),
    ],
)
def test_one_look_at_a_running_task(look: Look, status: TaskStatus) -> None:
    assert after(ROW, look).status is status


def test_absence_counts_only_when_it_is_confirmed() -> None:
    assert after(ROW, NOTHING_THERE, NOBODY_KNOWS, NOBODY_KNOWS).status is TaskStatus.RUNNING
    assert after(ROW, NOTHING_THERE, NOBODY_KNOWS, NOTHING_THERE).status is TaskStatus.LOST
    assert after(ROW, NOTHING_THERE, seen(JobPhase.RUNNING), NOTHING_THERE).status is TaskStatus.RUNNING
    assert after(ROW, NOTHING_THERE, intent=Intent.STOP).status is TaskStatus.STOPPED


@pytest.mark.parametrize(("between", "count"), [(NOTHING_THERE, 1), (seen(JobPhase.UNCLEAR), 0)])
def test_a_look_without_a_rejection_begins_its_patience_anew(between: Look, count: int) -> None:
    """A rejection half an hour ago and another one now gave up a task, although a look in between showed neither."""
    cause, patience = "pod_create_rejected", timedelta(minutes=30)
    rejected = seen(JobPhase.WAITING, cause=cause, give_up_after=patience)
    waits = replace(ROW, status=TaskStatus.PENDING, cause=cause, cause_since=NOW - timedelta(hours=1))
    assert after(waits, rejected).status is TaskStatus.FAILED
    forgotten = after(waits, between)
    assert (forgotten.cause, forgotten.absent_count) == (None, count)
    assert after(replace(forgotten, cause_since=None), rejected).status is TaskStatus.PENDING
    assert after(replace(waits, cause="image_pull"), between).cause == "image_pull"


def test_a_stop_that_reached_a_job_stops_it_and_one_that_came_late_does_not() -> None:
    failed = seen(JobPhase.FAILED, exit_code=143, reason="sigterm")
    told = seen(JobPhase.FAILED, exit_code=143, reason="sigterm", end_request=EndRequest.TO_JOB)
    assert after(ROW, failed, intent=Intent.STOP).status is TaskStatus.FAILED
    assert after(ROW, told, intent=Intent.STOP).status is TaskStatus.STOPPED
    assert after(ROW, told, intent=Intent.FORCE).reason == "stopped_forced"
    assert after(ROW, seen(JobPhase.SUCCEEDED), intent=Intent.STOP).status is TaskStatus.SUCCEEDED
    raced = verdict(ROW, seen(JobPhase.SUCCEEDED), Intent.STOP, NOW)
    assert raced
    assert raced.message == "it was done before the stop reached it"
    in_order = seen(JobPhase.SUCCEEDED, exit_code=0, end_request=EndRequest.TO_JOB)
    assert (after(ROW, in_order, intent=Intent.STOP).status, after(ROW, in_order).status) == (
        TaskStatus.STOPPED,
        TaskStatus.FAILED,
    )


def test_late_evidence_corrects_a_lost_task() -> None:
    lost = replace(ROW, status=TaskStatus.LOST)
    assert after(lost, seen(JobPhase.SUCCEEDED)).status is TaskStatus.SUCCEEDED
    assert after(lost, seen(JobPhase.FAILED)).status is TaskStatus.FAILED
    assert after(lost, seen(JobPhase.RUNNING)).status is TaskStatus.LOST
    assert after(lost, NOTHING_THERE).status is TaskStatus.LOST


def test_a_job_that_was_made_before_its_row_was_written_is_adopted() -> None:
    deploying = TaskRow(task=0, status=TaskStatus.DEPLOYING, attempt=1, version=2)
    adopted = after(deploying, seen(JobPhase.RUNNING))
    assert (adopted.status, adopted.job_uid) == (TaskStatus.RUNNING, "uid")


def test_what_was_never_deployed_waits_or_is_stopped() -> None:
    queued = TaskRow(task=0, status=TaskStatus.QUEUED, attempt=1, version=1)
    claimed = replace(queued, status=TaskStatus.DEPLOYING, claim_expires_at=NOW + timedelta(seconds=1))
    expired = replace(claimed, claim_expires_at=NOW - timedelta(seconds=1))
    assert verdict(queued, NOTHING_THERE, Intent.RUN, NOW) is None
    assert verdict(claimed, NOTHING_THERE, Intent.STOP, NOW) is None
    assert after(queued, NOTHING_THERE, intent=Intent.STOP).status is TaskStatus.STOPPED
    assert after(expired, NOTHING_THERE, intent=Intent.STOP).status is TaskStatus.STOPPED


def test_many_jobs_that_vanish_at_once_are_not_believed() -> None:
    rows = [replace(ROW, task=number) for number in range(40)]
    present = {(number, 1): replace(seen(JobPhase.SUCCEEDED).jobs[0, 1], task=number) for number in range(20)}
    changes, doubt = verdicts(rows, Look(complete=True, jobs=present), Intent.RUN, NOW)
    assert doubt is not None
    assert {change.status for change in changes} == {TaskStatus.SUCCEEDED}
    few, no_doubt = verdicts(rows[:25], Look(complete=True, jobs=present), Intent.RUN, NOW)
    assert no_doubt is None
    assert sum(change.absent_count for change in few) == 5


PHASES = st.sampled_from(JobPhase)
JOBS = st.builds(
    JobLook,
    task=st.just(0),
    attempt=st.sampled_from([1, 1, 1, 2]),
    uid=st.sampled_from(["uid", "uid", "another"]),
    name=st.just("job"),
    phase=PHASES,
    cause=st.none() | st.text(max_size=8) | st.sampled_from(["pod_terminating", "pod_overdue", "finishing"]),
    reason=st.none() | st.text(max_size=8),
    exit_code=st.none() | st.integers(-300, 300),
    presence=st.sampled_from(Presence),
    pods=st.sampled_from(Pods),
    end_request=st.sampled_from(EndRequest),
)
LOOKS = st.builds(
    lambda jobs, complete: Look(complete=complete, jobs={(job.task, job.attempt): job for job in jobs}),
    st.lists(JOBS, max_size=2),
    st.booleans(),
)
ROWS = st.builds(
    TaskRow,
    task=st.just(0),
    status=st.sampled_from(TaskStatus),
    attempt=st.just(1),
    version=st.just(1),
    job_uid=st.sampled_from(["uid", None]),
)
INTENTS = st.sampled_from(Intent)


@given(ROWS, st.lists(LOOKS, max_size=12), INTENTS)
@pytest.mark.system
def test_an_end_is_an_end(row: TaskRow, looks: list[Look], intent: Intent) -> None:
    for look in looks:
        before, row = row, after(row, look, intent=intent)
        if before.status.is_over and before.status is not TaskStatus.LOST:
            assert row == before
        if before.status is TaskStatus.LOST:
            assert row.status in (TaskStatus.LOST, TaskStatus.SUCCEEDED, TaskStatus.FAILED)


@given(ROWS, st.lists(LOOKS, max_size=12), INTENTS)
def test_only_evidence_of_its_own_job_ends_a_task(row: TaskRow, looks: list[Look], intent: Intent) -> None:
    for look in looks:
        before, row = row, after(row, look, intent=intent)
        job = look.jobs.get((0, 1))
        own = job if job and before.job_uid in (None, job.uid) else None
        if row.status is not before.status and row.status is TaskStatus.SUCCEEDED:
            assert own is not None
            assert own.phase is JobPhase.SUCCEEDED
            assert not own.stop_asked
        if row.status is not before.status and row.status is TaskStatus.FAILED:
            assert own is not None
            assert own.phase is JobPhase.FAILED or (own.phase is JobPhase.SUCCEEDED and _may_be_told(before, own))


def _may_be_told(before: TaskRow, job: JobLook) -> bool:
    seen_told = before.cause in ("pod_terminating", "pod_overdue", "deleted_externally")
    return seen_told if job.stop_asked is None else job.stop_asked


@given(ROWS, INTENTS)
def test_the_unknown_changes_nothing(row: TaskRow, intent: Intent) -> None:
    assert verdict(row, NOBODY_KNOWS, intent, NOW) is None


TRUTHS = [(JobPhase.SUCCEEDED, TaskStatus.SUCCEEDED), (JobPhase.FAILED, TaskStatus.FAILED)]
OWN = st.builds(seen, st.sampled_from([JobPhase.WAITING, JobPhase.RUNNING, JobPhase.ENDING, JobPhase.UNCLEAR]))


@given(st.lists(OWN | st.just(NOBODY_KNOWS), max_size=10), st.sampled_from(TRUTHS))
def test_any_past_followed_by_the_truth_ends_at_the_truth(past: list[Look], truth: tuple[JobPhase, TaskStatus]) -> None:
    phase, status = truth
    for start in (TaskStatus.DEPLOYING, TaskStatus.PENDING, TaskStatus.RUNNING):
        row = replace(ROW, status=start)
        assert after(row, *past, seen(phase)).status is status
        assert after(row, *past, seen(phase), *past, seen(phase)).status is status


@given(ROWS, LOOKS, INTENTS)
def test_looking_twice_is_looking_once(row: TaskRow, look: Look, intent: Intent) -> None:
    once = after(row, look, intent=intent)
    if once.absent_count == 0:
        assert verdict(once, look, intent, NOW) is None
