"""A task's row, as the verdicts of one look after the other change it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from crawler_lifecycle.model.looks import Look, TaskRow
from crawler_lifecycle.model.retries import FailureKind
from crawler_lifecycle.model.states import Intent, TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange
from crawler_lifecycle.runs.rules.verdict import verdict

NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)
HALF_AN_HOUR = timedelta(minutes=30)  # after which a task whose job waits in vain is given up


def row(status: TaskStatus = TaskStatus.RUNNING, job_uid: str | None = "job-uid", task: int = 0) -> TaskRow:
    return TaskRow(task=task, status=status, attempt=1, version=5, job_uid=job_uid)


def applied(old: TaskRow, change: TaskChange | None, now: datetime = NOW) -> TaskRow:
    """As `Tasks.sync` writes it: nothing, if the row is not what was read any more."""
    if change is None or change.version != old.version:
        return old
    if change.next_attempt:
        return _next_attempt(old, change.next_attempt.kind)
    return replace(
        old,
        status=change.status,
        version=old.version + 1,
        job_uid=change.job_uid,
        cause=change.cause,
        reason=change.reason,
        exit_code=change.exit_code,
        absent_count=change.absent_count,
        absent_since=(old.absent_since or now) if change.absent_count else None,
        started_at=change.started_at,
        cause_since=_since(old, change.cause, now),
        facts=change.facts,
    )


def _next_attempt(old: TaskRow, kind: FailureKind) -> TaskRow:
    is_infrastructure = kind is FailureKind.INFRASTRUCTURE
    return TaskRow(
        task=old.task,
        status=TaskStatus.QUEUED,
        attempt=old.attempt + 1,
        version=old.version + 2,
        infrastructure_failures=old.infrastructure_failures + is_infrastructure,
        program_failures=old.program_failures + (not is_infrastructure),
    )


def _since(old: TaskRow, cause: str | None, now: datetime) -> datetime | None:
    if cause is None:
        return None
    return old.cause_since if cause == old.cause else now


def after(
    old: TaskRow,
    *looks: Look,
    intent: Intent = Intent.RUN,
    stopped_at: datetime | None = None,
    apart: timedelta = timedelta(),
) -> TaskRow:
    """Return the row after the looks. `apart`: the time between two looks."""
    for number, look in enumerate(looks):
        now = NOW + number * apart
        old = applied(old, verdict(old, look, intent, now, stopped_at), now)
    return old
