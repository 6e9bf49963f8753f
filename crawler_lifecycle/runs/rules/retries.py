"""Rules for retries: which failures get another attempt, after which pause, and when the previous job is surely gone.

A look writes the end of an attempt and queues the next attempt in one transaction, and only if the look shows that no
part of the previous job can run any more.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from crawler_lifecycle.base.pacing import Backoff
from crawler_lifecycle.model import reasons
from crawler_lifecycle.model.looks import JobLook, Look, TaskRow
from crawler_lifecycle.model.retries import FailureKind, NextAttempt, Retries
from crawler_lifecycle.model.states import TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange
from crawler_lifecycle.runs.rules.endings import Ending, facts_on_record

NO_RETRIES = Retries(infrastructure=0, program=0)
LONGEST_PAUSE = timedelta(minutes=10)
# A job that was absent for a moment may be shown again, and would then run beside the next attempt's job.
ABSENT_FOR_SURE = timedelta(minutes=5)
SHORTEST_RECHECK = timedelta(seconds=30)


def retry_kind(row: TaskRow, end: TaskChange | Ending, retries: Retries) -> FailureKind | None:
    """Return the kind of the failure if the task gets a retry after this end; None for an end without a retry.

    A LOST task that is corrected was over already: its run may have counted on its end.
    """
    kind = _failure_kind(row, end)
    if kind is None or row.status.is_over:
        return None
    used = row.infrastructure_failures if kind is FailureKind.INFRASTRUCTURE else row.program_failures
    return kind if used < retries.allowed_after(kind) else None


def _failure_kind(row: TaskRow, end: TaskChange | Ending) -> FailureKind | None:
    if end.status not in (TaskStatus.FAILED, TaskStatus.LOST):
        return None
    # the service deleted the pod by force, and nobody knows whether its silent node has ended the program
    if reasons.POD_OVERDUE in (row.cause, end.reason):
        return None
    if end.reason in reasons.OF_INFRASTRUCTURE:
        return FailureKind.INFRASTRUCTURE
    has_failed = bool(end.exit_code) and end.reason not in reasons.BY_A_LIMIT
    return FailureKind.PROGRAM if has_failed else None


def with_retries(
    rows: Iterable[TaskRow], changes: Iterable[TaskChange], look: Look, retries: Retries, now: datetime
) -> list[TaskChange]:
    """Return the changes of a run that is to continue, with a next attempt after every end that gets a retry.

    A task stays open while its job has ended and its pods have not, until a later look shows that the job is gone.
    """
    by_task = {row.task: row for row in rows}
    completed = (_with_retry(by_task[change.task], change, look, retries, now) for change in changes)
    return [change for change in completed if change is not None]


def _with_retry(row: TaskRow, change: TaskChange, look: Look, retries: Retries, now: datetime) -> TaskChange | None:
    kind = retry_kind(row, change, retries)
    if kind is None:
        return change
    job = look.jobs.get((row.task, row.attempt))
    if job is not None and not job.gone:
        # only a job that ends on its own is waited for: another living job is lingering once its task is over
        return _still_open(row, change, job) if job.phase.has_ended and job.uid == change.job_uid else change
    earlier_failures = row.infrastructure_failures + row.program_failures
    pause = Backoff(timedelta(seconds=retries.pause_seconds), LONGEST_PAUSE).pause(earlier_failures + 1)
    return change.model_copy(update={"next_attempt": NextAttempt(kind=kind, deploy_after=now + pause)})


def _still_open(row: TaskRow, change: TaskChange, job: JobLook) -> TaskChange | None:
    """Return the change that keeps the task open, with the facts of its end; None if the row has all this already.

    An overdue job is not waited for: its change is the end, without a retry.
    """
    if job.overdue:
        return change
    status = TaskStatus.STOPPING if row.status is TaskStatus.STOPPING else TaskStatus.RUNNING
    on_record = (row.status, row.job_uid, row.cause, row.absent_count, facts_on_record(row))
    if on_record == (status, job.uid, job.cause, 0, change.facts):
        return None
    return TaskChange(
        task=row.task,
        attempt=row.attempt,
        version=row.version,
        status=status,
        job_uid=job.uid,
        job_name=job.name,
        cause=job.cause,
        reason=row.reason,
        exit_code=change.exit_code,
        started_at=change.started_at,
        facts=change.facts,
    )


def is_absent_for_sure(row: TaskRow, now: datetime) -> bool:
    """Return whether the job has been absent long enough that no look will show the job again."""
    return row.absent_since is not None and now - row.absent_since >= ABSENT_FOR_SURE


def recheck_pause(
    rows: Iterable[TaskRow], changes: Iterable[TaskChange], look: Look, now: datetime
) -> timedelta | None:
    """Return after which pause another look is needed for a retry; None if the paced looks are enough.

    A look is needed when an absent job is absent for sure, and soon if a job has ended and its pods have not. The
    result is no time of day, because the clock of the workflow may differ from `now`.
    """
    by_task = {change.task: change for change in changes}
    open_rows = [row for row in rows if not row.status.is_over and not _is_over(by_task.get(row.task))]
    jobs = [look.jobs.get((row.task, row.attempt)) for row in open_rows]
    if any(job is not None and job.phase.has_ended and not job.gone for job in jobs):
        return SHORTEST_RECHECK
    absent = [row.absent_since or now for row in open_rows if _is_absent(row, by_task.get(row.task))]
    return max(min(absent) + ABSENT_FOR_SURE - now, SHORTEST_RECHECK) if absent else None


def _is_over(change: TaskChange | None) -> bool:
    return change is not None and change.status.is_over


def _is_absent(row: TaskRow, change: TaskChange | None) -> bool:
    """Return whether the task's job is absent after the look; a look that shows nothing new changes no absence."""
    return bool(change.absent_count if change else row.absent_count)
