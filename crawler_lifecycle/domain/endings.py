"""Endings: how a task is over, given its row, its job and the outcome facts. Pure.

A program that was told to end and ended in order with 0 has not finished its work (docs/decisions/0006).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from crawler_lifecycle.contract.outcome_facts import OutcomeFacts
from crawler_lifecycle.contract.states import Intent, TaskStatus
from crawler_lifecycle.domain.causes import seen_told_by, was_seen_told
from crawler_lifecycle.domain.looks import JobLook, JobPhase, TaskRow
from crawler_lifecycle.domain.reasons import (
    DEADLINE_EXCEEDED,
    DELETED_EXTERNALLY,
    DISRUPTED,
    JOB_DISAPPEARED,
    POD_OVERDUE,
    POD_TERMINATING,
    SIDECAR_HANGING,
    STOPPED,
    STOPPED_FORCED,
)

TWO_CLOCKS = timedelta(minutes=1)  # how far the cluster's may be behind
ORDER_UNKNOWN = (
    "it ended with exit code {} within a minute of its deletion ({}), and nothing shows that it was done before"
)
ENDED_IN_ORDER = "it was told to end ({}) before it was done, and ended in order, with exit code {}"
DONE_BEFORE = "it was done before the stop reached it"
RAN_ON = "its main container ended with exit code {}, and another container ran on"
ENDED = {
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
    """Return how a task is over whose job has ended."""
    stops = intent is not Intent.RUN and row.status is not TaskStatus.LOST
    if facts and facts.ended_by_itself and _was_ended_by_others(job):
        return _by_facts(facts, stops=stops)
    if job.phase is JobPhase.SUCCEEDED:
        return _of_success(row, job, facts, intent, stops=stops)
    if stops and _was_stopped(row, job, stopped_at):
        return Ending(TaskStatus.STOPPED, stopped(intent), job.exit_code, None, job.ended_at)
    if job.phase is JobPhase.FAILED:
        return _of_failure(row, job, facts)
    return Ending(ENDED[job.phase], job.reason, job.exit_code, None, job.ended_at)


def ending_of_given_up(cause: str | None, job: JobLook, facts: OutcomeFacts | None) -> Ending:
    """Return how a task is over by a limit of ours. Its job is still there, and is ended as one that nobody wants."""
    if cause == SIDECAR_HANGING and facts and facts.has_ended:
        ended = _by_facts(facts)
        return Ending(ended.status, ended.reason, ended.exit_code, RAN_ON.format(facts.exit_code), ended.ended_at)
    return Ending(TaskStatus.FAILED, cause, None, job.message)


def ending_of_absent(row: TaskRow, facts: OutcomeFacts | None, intent: Intent, lost_by: str | None = None) -> Ending:
    """Return how a task is over of whose job nothing is left: by what was seen of it before."""
    stops = intent is not Intent.RUN
    if facts and facts.has_ended and (facts.ended_by_itself or not stops):
        return _by_facts(facts, stops=stops)
    code = facts.exit_code if facts else None
    if stops:
        return Ending(TaskStatus.STOPPED, stopped(intent), code)
    reason = row.cause if row.cause in (DELETED_EXTERNALLY, POD_OVERDUE) else lost_by or JOB_DISAPPEARED
    return Ending(TaskStatus.LOST, reason, code)


def stopped(intent: Intent) -> str:
    return STOPPED_FORCED if intent is Intent.FORCE else STOPPED


def _by_facts(facts: OutcomeFacts, *, stops: bool = False) -> Ending:
    if not facts.succeeded:
        return Ending(TaskStatus.FAILED, facts.reason, facts.exit_code, facts.message, facts.ended_at)
    if facts.ended_by_itself:
        return Ending(TaskStatus.SUCCEEDED, None, facts.exit_code, DONE_BEFORE if stops else None, facts.ended_at)
    return _not_done(facts.told_by or DISRUPTED, facts, facts.exit_code, facts.ended_at)


def _not_done(why: str, facts: OutcomeFacts | None, exit_code: int | None, ended_at: datetime | None) -> Ending:
    is_order_unknown = facts is not None and facts.has_ended and facts.told_to_end is None
    message = ORDER_UNKNOWN.format(exit_code, why) if is_order_unknown else ENDED_IN_ORDER.format(why, exit_code)
    return Ending(TaskStatus.FAILED, why, exit_code, message, ended_at)


def _of_success(row: TaskRow, job: JobLook, facts: OutcomeFacts | None, intent: Intent, *, stops: bool) -> Ending:
    if not _was_told(row, job, facts):
        return Ending(TaskStatus.SUCCEEDED, None, job.exit_code, DONE_BEFORE if stops else None, job.ended_at)
    if stops:
        return Ending(TaskStatus.STOPPED, stopped(intent), job.exit_code, None, job.ended_at)
    known_by = facts.told_by if facts else None
    why = job.reason or known_by or seen_told_by(row) or DISRUPTED
    return _not_done(why, facts, job.exit_code, job.ended_at)


def _of_failure(row: TaskRow, job: JobLook, facts: OutcomeFacts | None) -> Ending:
    """The pod knows more than the job, and may be gone: then the facts tell that were read from it."""
    if facts and facts.has_ended and not facts.succeeded and job.facts is None and job.reason != DEADLINE_EXCEEDED:
        return _by_facts(facts)
    told_by = (facts.told_by if facts else None) or seen_told_by(row)
    reason = told_by or job.reason if job.reason == DISRUPTED else job.reason
    message = None if job.gone else job.message  # of a job that is gone, its evidence says more
    return Ending(TaskStatus.FAILED, reason, job.exit_code, message, job.ended_at)


def _was_told(row: TaskRow, job: JobLook, facts: OutcomeFacts | None) -> bool:
    """Whether a program that ended with 0 counts as told to end before. Looks at the program tell first; where they do
    not, what is left of the job; and where that is nothing, the row's cause.

    A program that ended within a minute of its deletion counts as told, unless a look or a stop saw the end first."""
    if facts and facts.has_ended:
        return not facts.ended_by_itself
    if facts and facts.told_to_end:
        return True
    return was_seen_told(row) if job.stop_asked is None else job.stop_asked


def _was_ended_by_others(job: JobLook) -> bool:
    """Whether the job failed for another reason than its program."""
    by_a_deletion = bool(job.stop_asked) or job.pods_deleted
    return job.phase is JobPhase.FAILED and (by_a_deletion or job.reason in (DEADLINE_EXCEEDED, DISRUPTED))


def _was_stopped(row: TaskRow, job: JobLook, stopped_at: datetime | None) -> bool:
    """Whether a stop ended a job that failed: it was seen ending in the stop, or its pods were ended since the stop."""
    if job.stop_asked or (row.status is TaskStatus.STOPPING and row.cause == POD_TERMINATING):
        return True
    if not job.pods_deleted or job.ended_at is None or stopped_at is None:
        return False
    return job.ended_at >= stopped_at - TWO_CLOCKS
