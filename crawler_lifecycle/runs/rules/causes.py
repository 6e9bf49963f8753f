"""Rules for causes: why a living task waits, or its present trouble, from its row and its job."""

from crawler_lifecycle.model import reasons
from crawler_lifecycle.model.looks import JobLook, JobPhase, TaskRow
from crawler_lifecycle.model.states import Intent

CAUSES_NEAR_THE_END = (reasons.FINISHING, reasons.BACKOFF, reasons.FAILING)  # the program has ended, or will end soon
# General causes with their precise causes. A job always shows the general cause; only an event shows the precise
# cause. The cluster deletes events after an hour: from then on only the row has the precise cause. POD_CREATE_REJECTED
# is left out: a task is given up only if look after look shows its rejection.
PRECISE_CAUSES = {
    reasons.POD_NOT_CREATED: (reasons.QUOTA,),
    reasons.CONTAINER_CREATING: (reasons.VOLUME, reasons.POD_SANDBOX, reasons.RESOURCE_CLAIM),
}


def cause_of(row: TaskRow, job: JobLook, intent: Intent) -> str | None:
    """Return the cause for a living task's row; None if the task neither waits nor is in trouble.

    The cause is the job's, except where the row knows more than the job shows, or where the intent shows a deletion
    from outside.
    """
    if row.cause == reasons.POD_OVERDUE and intent is Intent.RUN:
        return reasons.POD_OVERDUE  # not a deletion from outside: the service itself deletes an overdue job
    if row.cause in PRECISE_CAUSES.get(job.cause or "", ()):
        return row.cause
    is_deleted_without_stop = job.phase is JobPhase.ENDING and job.stop_asked and intent is Intent.RUN
    if is_deleted_without_stop:
        return job.cause if job.cause in (reasons.ORPHAN_PODS, reasons.POD_OVERDUE) else reasons.DELETED_EXTERNALLY
    is_near_the_end = job.cause in CAUSES_NEAR_THE_END or (job.phase is JobPhase.ENDING and not job.cause)
    if is_near_the_end and is_told_to_end_on_record(row):
        # the job does not show the request to end any more, but the verdict on the end needs the request
        return reasons.POD_TERMINATING
    return job.cause


def reason_while_alive(row: TaskRow, job: JobLook, cause: str | None) -> str | None:
    """Return the reason for a living task's row: who asked the program to end; None if nobody did.

    The row keeps the author: only the pod names the author, and the pod may be deleted before the task is over.
    """
    if cause == reasons.POD_TERMINATING:
        return job.reason or row.reason
    if cause == reasons.DELETED_EXTERNALLY:
        # a deletion of the Job is a request only once its pods were notified, as the job shows now or an earlier look
        # saw
        were_pods_told = reasons.POD_TERMINATING in (job.cause, row.cause)
        return reasons.DELETED_EXTERNALLY if were_pods_told else row.reason
    return None


def is_told_to_end_on_record(row: TaskRow) -> bool:
    """Return whether an earlier look saw that the program was asked to end.

    The deletion of a Job from outside counts only if its pods were notified, too: then the row has a reason.
    """
    if row.cause == reasons.DELETED_EXTERNALLY:
        return row.reason is not None
    return row.cause in (reasons.POD_TERMINATING, reasons.POD_OVERDUE)


def told_to_end_by(row: TaskRow) -> str | None:
    """Return who asked the program to end, by the row; None if no request or no author is recorded."""
    if row.cause == reasons.POD_OVERDUE:
        return reasons.POD_OVERDUE
    return row.reason if is_told_to_end_on_record(row) else None
