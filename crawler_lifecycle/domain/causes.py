"""Causes: why a task that is alive waits, or what ails it, given its row and its job. Pure."""

from crawler_lifecycle.contract.states import Intent
from crawler_lifecycle.domain.looks import JobLook, JobPhase, TaskRow
from crawler_lifecycle.domain.reasons import (
    BACKOFF,
    CONTAINER_CREATING,
    DELETED_EXTERNALLY,
    FAILING,
    FINISHING,
    ORPHAN_PODS,
    POD_CREATE_REJECTED,
    POD_NOT_CREATED,
    POD_OVERDUE,
    POD_SANDBOX,
    POD_TERMINATING,
    QUOTA,
    VOLUME,
)

NEARLY_OVER = (FINISHING, BACKOFF, FAILING)
TOLD_BY_EVENTS = {POD_NOT_CREATED: (QUOTA, POD_CREATE_REJECTED), CONTAINER_CREATING: (VOLUME, POD_SANDBOX)}


def cause_of(row: TaskRow, job: JobLook, intent: Intent) -> str | None:
    if row.cause == POD_OVERDUE and intent is Intent.RUN:
        return POD_OVERDUE  # it was we who then deleted it
    if row.cause in TOLD_BY_EVENTS.get(job.cause or "", ()):
        return row.cause  # the event that said more has expired
    if job.phase is JobPhase.ENDING and job.stop_asked and intent is Intent.RUN:
        return job.cause if job.cause in (ORPHAN_PODS, POD_OVERDUE) else DELETED_EXTERNALLY
    if was_seen_told(row) and (job.cause in NEARLY_OVER or (job.phase is JobPhase.ENDING and not job.cause)):
        return POD_TERMINATING  # what it was told, it does not forget
    return job.cause


def reason_while_alive(row: TaskRow, job: JobLook, cause: str | None) -> str | None:
    """Return who told the job's pods to end, which stays the task's reason: at its end the pod may be gone."""
    if cause == POD_TERMINATING:
        return job.reason or row.reason
    if cause == DELETED_EXTERNALLY:
        return DELETED_EXTERNALLY if POD_TERMINATING in (job.cause, row.cause) else row.reason
    return None


def was_seen_told(row: TaskRow) -> bool:
    """Whether a look saw that the job was told to end while it ran. Of a job that somebody deleted only its pods tell
    that."""
    by_its_cause = row.cause in (POD_TERMINATING, POD_OVERDUE)
    return by_its_cause or (row.cause == DELETED_EXTERNALLY and row.reason is not None)


def seen_told_by(row: TaskRow) -> str | None:
    if row.cause == POD_OVERDUE:
        return POD_OVERDUE
    return row.reason if was_seen_told(row) else None
