"""Causes: why a living task waits, or its present trouble, from its row and its job."""

from crawler_lifecycle.contract.states import Intent
from crawler_lifecycle.domain import reasons
from crawler_lifecycle.domain.looks import JobLook, JobPhase, TaskRow

NEARLY_OVER = (reasons.FINISHING, reasons.BACKOFF, reasons.FAILING)
TOLD_BY_EVENTS = {
    reasons.POD_NOT_CREATED: (reasons.QUOTA, reasons.POD_CREATE_REJECTED),
    reasons.CONTAINER_CREATING: (reasons.VOLUME, reasons.POD_SANDBOX),
}


def cause_of(row: TaskRow, job: JobLook, intent: Intent) -> str | None:
    if row.cause == reasons.POD_OVERDUE and intent is Intent.RUN:
        return reasons.POD_OVERDUE  # we deleted the overdue job ourselves
    if row.cause in TOLD_BY_EVENTS.get(job.cause or "", ()):
        return row.cause  # the event with the better cause has expired
    if job.phase is JobPhase.ENDING and job.stop_asked and intent is Intent.RUN:
        return job.cause if job.cause in (reasons.ORPHAN_PODS, reasons.POD_OVERDUE) else reasons.DELETED_EXTERNALLY
    if is_told_to_end_on_record(row) and (job.cause in NEARLY_OVER or (job.phase is JobPhase.ENDING and not job.cause)):
        return reasons.POD_TERMINATING  # a request to end stays true until the end
    return job.cause


def reason_while_alive(row: TaskRow, job: JobLook, cause: str | None) -> str | None:
    """Return the author of the request to end, as the task's reason. At the end the pod may be gone, and its word with
    it.
    """
    if cause == reasons.POD_TERMINATING:
        return job.reason or row.reason
    if cause == reasons.DELETED_EXTERNALLY:
        return reasons.DELETED_EXTERNALLY if reasons.POD_TERMINATING in (job.cause, row.cause) else row.reason
    return None


def is_told_to_end_on_record(row: TaskRow) -> bool:
    """Return whether a look saw a request to end while the job ran. For a Job deleted from outside, only its pods
    count.
    """
    by_its_cause = row.cause in (reasons.POD_TERMINATING, reasons.POD_OVERDUE)
    return by_its_cause or (row.cause == reasons.DELETED_EXTERNALLY and row.reason is not None)


def told_to_end_by(row: TaskRow) -> str | None:
    if row.cause == reasons.POD_OVERDUE:
        return reasons.POD_OVERDUE
    return row.reason if is_told_to_end_on_record(row) else None
