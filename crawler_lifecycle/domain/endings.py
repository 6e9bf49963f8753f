"""Rules for endings: the final status and reason of a task, from its row, its job and the outcome facts.

A program that was told to end, and then ended with 0, has not finished its work (docs/decisions/0006).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from crawler_lifecycle.contract.outcome_facts import OutcomeFacts
from crawler_lifecycle.contract.states import Intent, TaskStatus
from crawler_lifecycle.domain import reasons
from crawler_lifecycle.domain.causes import is_told_to_end_on_record, told_to_end_by
from crawler_lifecycle.domain.looks import EndRequest, JobLook, JobPhase, TaskRow

TWO_CLOCKS = timedelta(minutes=1)  # greatest lag of the cluster's clock
ORDER_UNKNOWN = (
    "it ended with exit code {} within a minute of its deletion ({}), and nothing shows that it was done before"
)
ENDED_IN_ORDER = "it was told to end ({}) before it was done, and ended in order, with exit code {}"
DONE_BEFORE = "it was done before the stop reached it"
RAN_ON = "its main container ended with exit code {}, and another container ran on"
STATUS_AFTER = {
    JobPhase.SUCCEEDED: TaskStatus.SUCCEEDED,
    JobPhase.FAILED: TaskStatus.FAILED,
    JobPhase.VANISHED: TaskStatus.LOST,
}


@dataclass(frozen=True, slots=True)
class Ending:
    status: TaskStatus
    reason: str | None = None
    exit_code: int | None = None
    message: str | None = None
    ended_at: datetime | None = None


def ending(
    row: TaskRow, job: JobLook, facts: OutcomeFacts | None, intent: Intent, stopped_at: datetime | None
) -> Ending:
    """Return how a task is over after the end of its job."""
    # a LOST task was over before the stop, so no correction makes the task STOPPED
    stops = intent is not Intent.RUN and row.status is not TaskStatus.LOST
    if facts and facts.ended_by_itself and _was_ended_from_outside(job):
        return _ending_by_facts(facts, stops=stops)
    if job.phase is JobPhase.SUCCEEDED:
        return _ending_of_success(row, job, facts, intent, stops=stops)
    if stops and _was_stopped(row, job, stopped_at):
        return Ending(TaskStatus.STOPPED, stopped(intent), job.exit_code, None, job.ended_at)
    if job.phase is JobPhase.FAILED:
        return _ending_of_failure(row, job, facts)
    return Ending(STATUS_AFTER[job.phase], job.reason, job.exit_code, None, job.ended_at)


def ending_of_given_up(cause: str | None, job: JobLook, facts: OutcomeFacts | None) -> Ending:
    """Return how a task is over by our own limit. Its job is still there, and is ended like a lingering job."""
    if cause == reasons.SIDECAR_HANGING and facts and facts.has_ended:
        ended = _ending_by_facts(facts)
        return Ending(ended.status, ended.reason, ended.exit_code, RAN_ON.format(facts.exit_code), ended.ended_at)
    return Ending(TaskStatus.FAILED, cause, None, job.message)


def ending_of_absent(row: TaskRow, facts: OutcomeFacts | None, intent: Intent, lost_by: str | None = None) -> Ending:
    """Return how a task without a trace of its job is over: by the observations on record."""
    stops = intent is not Intent.RUN
    if facts and facts.has_ended and (facts.ended_by_itself or not stops):
        return _ending_by_facts(facts, stops=stops)
    code = facts.exit_code if facts else None
    if stops:
        return Ending(TaskStatus.STOPPED, stopped(intent), code)
    reason = (
        row.cause
        if row.cause in (reasons.DELETED_EXTERNALLY, reasons.POD_OVERDUE)
        else lost_by or reasons.JOB_DISAPPEARED
    )
    return Ending(TaskStatus.LOST, reason, code)


def stopped(intent: Intent) -> str:
    return reasons.STOPPED_FORCED if intent is Intent.FORCE else reasons.STOPPED


def _ending_by_facts(facts: OutcomeFacts, *, stops: bool = False) -> Ending:
    if not facts.succeeded:
        return Ending(TaskStatus.FAILED, facts.reason, facts.exit_code, facts.message, facts.ended_at)
    if facts.ended_by_itself:
        return Ending(TaskStatus.SUCCEEDED, None, facts.exit_code, DONE_BEFORE if stops else None, facts.ended_at)
    return _unfinished(facts.told_by or reasons.DISRUPTED, facts, facts.exit_code, facts.ended_at)


def _unfinished(why: str, facts: OutcomeFacts | None, exit_code: int | None, ended_at: datetime | None) -> Ending:
    is_order_unknown = facts is not None and facts.has_ended and facts.told_to_end is None
    message = ORDER_UNKNOWN.format(exit_code, why) if is_order_unknown else ENDED_IN_ORDER.format(why, exit_code)
    return Ending(TaskStatus.FAILED, why, exit_code, message, ended_at)


def _ending_of_success(
    row: TaskRow, job: JobLook, facts: OutcomeFacts | None, intent: Intent, *, stops: bool
) -> Ending:
    if not _was_told_to_end(row, job, facts):
        return Ending(TaskStatus.SUCCEEDED, None, job.exit_code, DONE_BEFORE if stops else None, job.ended_at)
    if stops:
        return Ending(TaskStatus.STOPPED, stopped(intent), job.exit_code, None, job.ended_at)
    known_by = facts.told_by if facts else None
    why = job.reason or known_by or told_to_end_by(row) or reasons.DISRUPTED
    return _unfinished(why, facts, job.exit_code, job.ended_at)


def _ending_of_failure(row: TaskRow, job: JobLook, facts: OutcomeFacts | None) -> Ending:
    """Prefer the facts on record once the pod is gone, since the pod knew more than the Job."""
    if (
        facts
        and facts.has_ended
        and not facts.succeeded
        and job.facts is None
        and job.reason != reasons.DEADLINE_EXCEEDED
    ):
        return _ending_by_facts(facts)
    reason = job.reason
    if reason == reasons.DISRUPTED:  # the look does not know the author; the records may
        reason = (facts.told_by if facts else None) or told_to_end_by(row) or reason
    message = None if job.gone else job.message  # the evidence of a gone job says more
    return Ending(TaskStatus.FAILED, reason, job.exit_code, message, job.ended_at)


def _was_told_to_end(row: TaskRow, job: JobLook, facts: OutcomeFacts | None) -> bool:
    """Return whether a program that ended with 0 was told to end before.

    The facts decide first, then the job's remains, then the row's cause. Facts without the order (deletion and end were
    within a minute) count as told: a false FAILED costs a second crawl, a false SUCCEEDED loses half a crawl.
    """
    if facts and facts.has_ended:
        return not facts.ended_by_itself
    if facts and facts.told_to_end:
        return True
    return is_told_to_end_on_record(row) if job.stop_asked is None else job.stop_asked


def _was_ended_from_outside(job: JobLook) -> bool:
    """Return whether the job failed for another reason than its program."""
    by_a_deletion = job.end_request in (EndRequest.TO_JOB, EndRequest.TO_PODS)
    return job.phase is JobPhase.FAILED and (
        by_a_deletion or job.reason in (reasons.DEADLINE_EXCEEDED, reasons.DISRUPTED)
    )


def _was_stopped(row: TaskRow, job: JobLook, stopped_at: datetime | None) -> bool:
    """Return whether a stop ended the failed job: a look saw the job ending, or its pods ended since the stop."""
    if job.stop_asked or (row.status is TaskStatus.STOPPING and row.cause == reasons.POD_TERMINATING):
        return True
    if job.end_request is not EndRequest.TO_PODS or job.ended_at is None or stopped_at is None:
        return False
    return job.ended_at >= stopped_at - TWO_CLOCKS
