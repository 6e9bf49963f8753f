"""What does a task's row have to become, given what the cluster shows? Pure, and the same for every cluster.

`None` means that the row tells the truth already, or that nothing certain is known.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from crawler_lifecycle.contract.states import Intent, TaskStatus
from crawler_lifecycle.contract.steps import TaskChange
from crawler_lifecycle.domain.looks import JobLook, JobPhase, Look, TaskRow
from crawler_lifecycle.domain.reasons import (
    BACKOFF,
    DELETED_EXTERNALLY,
    DISRUPTED,
    FAILING,
    FINISHING,
    JOB_DISAPPEARED,
    ORPHAN_PODS,
    POD_OVERDUE,
    POD_TERMINATING,
    RESULT_UNKNOWN,
    STOPPED,
    STOPPED_FORCED,
    SUSPENDED,
)

LOOKS_TO_CONFIRM_ABSENCE = 2
LOOKS_TO_CONFIRM_ABSENCE_IN_A_STOP = 1
TWO_CLOCKS = timedelta(minutes=1)  # how far the cluster's may be behind
FEWEST_TO_DOUBT = 5
SHARE_TO_DOUBT = 0.2

NEARLY_OVER = (FINISHING, BACKOFF, FAILING)
ENDED_IN_ORDER = "it was told to end ({}) before it was done, and ended in order, with exit code {}"
DONE_BEFORE = "it was done before the stop reached it"
ENDED = {
    JobPhase.SUCCEEDED: TaskStatus.SUCCEEDED,
    JobPhase.FAILED: TaskStatus.FAILED,
    JobPhase.VANISHED: TaskStatus.LOST,
}
ONGOING = {
    JobPhase.WAITING: TaskStatus.PENDING,
    JobPhase.RUNNING: TaskStatus.RUNNING,
    JobPhase.ENDING: TaskStatus.STOPPING,
}


def verdict(
    row: TaskRow, look: Look, intent: Intent, now: datetime, stopped_at: datetime | None = None
) -> TaskChange | None:
    """`stopped_at`: since when the run is being stopped, where that is known."""
    if row.status.is_over and row.status is not TaskStatus.LOST:
        return None
    job = look.jobs.get((row.task, row.attempt))
    if job is not None and job.phase is JobPhase.UNCLEAR:
        # a stop only has to know that nothing of it runs. Else it may be read yet, unless the job itself is gone
        nobody_can_tell = job.gone and (job.left_behind or intent is not Intent.RUN)
        return _absent(row, intent, now, RESULT_UNKNOWN) if nobody_can_tell else None
    if job is not None and intent is Intent.RUN and _holds_the_name(row, job):
        return None
    if job is not None and _is_its_own(row, job):
        return _present(row, job, intent, stopped_at)
    if job is None and not look.complete:
        return None
    return _absent(row, intent, now)


def verdicts(
    rows: Iterable[TaskRow], look: Look, intent: Intent, now: datetime, stopped_at: datetime | None = None
) -> tuple[list[TaskChange], str | None]:
    """The changes of a whole look, and a problem if the look is too strange to be believed."""
    rows = list(rows)
    changes = [change for row in rows if (change := verdict(row, look, intent, now, stopped_at))]
    in_cluster = sum(row.status.is_in_cluster for row in rows)
    vanishing = sum(change.absent_count == 1 for change in changes)
    if intent is Intent.RUN and vanishing > max(FEWEST_TO_DOUBT, SHARE_TO_DOUBT * in_cluster):
        believed = [change for change in changes if not change.absent_count]
        return believed, f"{vanishing} of {in_cluster} jobs vanished at once: not believed until somebody looks"
    return changes, None


def _holds_the_name(row: TaskRow, job: JobLook) -> bool:
    """A job is being deleted, and no job of the task is on record: the deployment waits for its name."""
    return row.job_uid is None and job.phase is JobPhase.ENDING and not job.left_behind


def _is_its_own(row: TaskRow, job: JobLook) -> bool:
    """A job that was made before its row was written is adopted; what one left behind is not enough for that."""
    return row.job_uid == job.uid or (row.job_uid is None and not job.left_behind)


def _present(row: TaskRow, job: JobLook, intent: Intent, stopped_at: datetime | None) -> TaskChange | None:
    if job.phase.has_ended:
        if row.status is TaskStatus.LOST and job.phase is JobPhase.VANISHED:
            return None
        return _ended(row, job, intent, stopped_at)
    if row.status is TaskStatus.LOST:
        return None  # a job that ran on after it was given up ends as evidence, not as life
    status, cause = ONGOING[job.phase], _cause(row, job, intent)
    if status is TaskStatus.PENDING and row.status is TaskStatus.RUNNING:
        if cause != SUSPENDED:
            return None  # an older observation
        status = TaskStatus.RUNNING
    ends_by_a_stop = cause == POD_TERMINATING and intent is not Intent.RUN
    if row.status is TaskStatus.STOPPING or ends_by_a_stop or job.overdue:
        status = TaskStatus.STOPPING
    told_by = _told_by(row, job, cause)
    if (status, cause, told_by, job.uid, 0) == (row.status, row.cause, row.reason, row.job_uid, row.absent_count):
        return None
    return _change(row, job, status, cause=cause, reason=told_by)


def _cause(row: TaskRow, job: JobLook, intent: Intent) -> str | None:
    if row.cause == POD_OVERDUE and intent is Intent.RUN:
        return POD_OVERDUE  # it was we who then deleted it
    if job.phase is JobPhase.ENDING and job.stop_asked and intent is Intent.RUN:
        return job.cause if job.cause in (ORPHAN_PODS, POD_OVERDUE) else DELETED_EXTERNALLY
    if _was_seen_told(row) and (job.cause in NEARLY_OVER or (job.phase is JobPhase.ENDING and not job.cause)):
        return POD_TERMINATING  # what it was told, it does not forget
    return job.cause


def _told_by(row: TaskRow, job: JobLook, cause: str | None) -> str | None:
    """Who told what runs to end. A task that goes on has it as its reason: its pod may be gone when it has ended."""
    if cause == POD_TERMINATING:
        return job.reason or row.reason
    if cause == DELETED_EXTERNALLY:
        return DELETED_EXTERNALLY if POD_TERMINATING in (job.cause, row.cause) else row.reason
    return None


def _was_seen_told(row: TaskRow) -> bool:
    """While it ran. Of a job that somebody deleted only its pods tell that."""
    told = row.cause in (POD_TERMINATING, POD_OVERDUE)
    return told or (row.cause == DELETED_EXTERNALLY and row.reason is not None)


def _ended(row: TaskRow, job: JobLook, intent: Intent, stopped_at: datetime | None) -> TaskChange:
    stops = intent is not Intent.RUN and row.status is not TaskStatus.LOST
    if stops and _was_stopped(row, job, stopped_at):
        return _change(row, job, TaskStatus.STOPPED, reason=_stopped(intent))
    if job.phase is JobPhase.SUCCEEDED and _was_told(row, job):
        why = job.reason or _seen_told_by(row) or DISRUPTED
        return _change(row, job, TaskStatus.FAILED, reason=why, message=ENDED_IN_ORDER.format(why, job.exit_code))
    raced = stops and job.phase is JobPhase.SUCCEEDED
    return _change(row, job, ENDED[job.phase], reason=job.reason, message=DONE_BEFORE if raced else None)


def _was_told(row: TaskRow, job: JobLook) -> bool:
    """A program may end with 0 because it was told to: it is its own word that it ended in order, not that it was done.

    What is left of the job tells first; where that is nothing, what was seen while it ran."""
    return _was_seen_told(row) if job.stop_asked is None else job.stop_asked


def _seen_told_by(row: TaskRow) -> str | None:
    if row.cause == POD_OVERDUE:
        return POD_OVERDUE
    return row.reason if _was_seen_told(row) else None


def _was_stopped(row: TaskRow, job: JobLook, stopped_at: datetime | None) -> bool:
    """What was seen ending in a stop was stopped; and what it ran was ended by us, if that was since the stop."""
    if job.phase is JobPhase.SUCCEEDED:
        return bool(job.stop_asked) or (row.status is TaskStatus.STOPPING and _was_told(row, job))
    if job.stop_asked or (row.status is TaskStatus.STOPPING and row.cause == POD_TERMINATING):
        return True
    if not job.pods_deleted or job.ended_at is None or stopped_at is None:
        return False
    return job.ended_at >= stopped_at - TWO_CLOCKS


def _absent(row: TaskRow, intent: Intent, now: datetime, lost_by: str = JOB_DISAPPEARED) -> TaskChange | None:
    if row.status is TaskStatus.LOST:
        return None
    if row.job_uid is None:
        claimed = row.claim_expires_at is not None and row.claim_expires_at > now
        if intent is Intent.RUN or claimed:
            return None  # not deployed yet, or perhaps just now
        return _change(row, None, TaskStatus.STOPPED, reason=_stopped(intent))
    count = row.absent_count + 1
    if count < (LOOKS_TO_CONFIRM_ABSENCE if intent is Intent.RUN else LOOKS_TO_CONFIRM_ABSENCE_IN_A_STOP):
        return _change(row, None, row.status, cause=row.cause, reason=row.reason, absent_count=count)
    if intent is not Intent.RUN:
        return _change(row, None, TaskStatus.STOPPED, reason=_stopped(intent))
    reason = row.cause if row.cause in (DELETED_EXTERNALLY, POD_OVERDUE) else lost_by
    return _change(row, None, TaskStatus.LOST, reason=reason)


def _stopped(intent: Intent) -> str:
    return STOPPED_FORCED if intent is Intent.FORCE else STOPPED


def _change(
    row: TaskRow,
    job: JobLook | None,
    status: TaskStatus,
    *,
    cause: str | None = None,
    reason: str | None = None,
    message: str | None = None,
    absent_count: int = 0,
) -> TaskChange:
    return TaskChange(
        task=row.task,
        attempt=row.attempt,
        version=row.version,
        status=status,
        job_uid=job.uid if job else row.job_uid,
        job_name=job.name if job else None,
        cause=cause,
        reason=reason,
        exit_code=job.exit_code if job else None,
        message=message,
        absent_count=absent_count,
        started_at=(job.started_at if job else None) or row.started_at,
        ended_at=job.ended_at if job else None,
    )
