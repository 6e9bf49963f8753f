"""Rules for causes: why a living task waits, or its present trouble, from its row and its job."""

from crawler_lifecycle.contract.states import Intent
from crawler_lifecycle.domain import reasons
from crawler_lifecycle.domain.looks import JobLook, JobPhase, TaskRow

NEARLY_OVER = (reasons.FINISHING, reasons.BACKOFF, reasons.FAILING)
# A job shows only the general cause (the key). The row keeps a more precise cause from an event, since the cluster
# deletes events after an hour.
PRECISE_CAUSES = {
    reasons.POD_NOT_CREATED: (reasons.QUOTA, reasons.POD_CREATE_REJECTED),
    reasons.CONTAINER_CREATING: (reasons.VOLUME, reasons.POD_SANDBOX),
}


def cause_of(row: TaskRow, job: JobLook, intent: Intent) -> str | None:
    if row.cause == reasons.POD_OVERDUE and intent is Intent.RUN:
        return reasons.POD_OVERDUE  # we deleted the overdue job ourselves
    if row.cause in PRECISE_CAUSES.get(job.cause or "", ()):
        return row.cause
    if job.phase is JobPhase.ENDING and job.stop_asked and intent is Intent.RUN:
        return job.cause if job.cause in (reasons.ORPHAN_PODS, reasons.POD_OVERDUE) else reasons.DELETED_EXTERNALLY
    if is_told_to_end_on_record(row) and (job.cause in NEARLY_OVER or (job.phase is JobPhase.ENDING and not job.cause)):
        return reasons.POD_TERMINATING  # a request to end stays true until the end
    return job.cause


def reason_while_alive(row: TaskRow, job: JobLook, cause: str | None) -> str | None:
    """Return the author of a request to end, as the reason for a living task.

    The row keeps the author, because the pod with the author's name may be gone at the end.
    """
    if cause == reasons.POD_TERMINATING:
        return job.reason or row.reason
    if cause == reasons.DELETED_EXTERNALLY:
        return reasons.DELETED_EXTERNALLY if reasons.POD_TERMINATING in (job.cause, row.cause) else row.reason
    return None


def is_told_to_end_on_record(row: TaskRow) -> bool:
    """Return whether an earlier look saw that the program was told to end.

    The deletion of a Job from outside counts only if its pods were told, too: then the row has a reason.
    """
    return row.cause in (reasons.POD_TERMINATING, reasons.POD_OVERDUE) or (
        row.cause == reasons.DELETED_EXTERNALLY and row.reason is not None
    )


def told_to_end_by(row: TaskRow) -> str | None:
    if row.cause == reasons.POD_OVERDUE:
        return reasons.POD_OVERDUE
    return row.reason if is_told_to_end_on_record(row) else None
