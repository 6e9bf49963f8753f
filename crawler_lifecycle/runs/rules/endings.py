"""Rules for a task's row by its job and the outcome facts: the end, the cause while the task lives, and the facts.

`ending` gives the final status and reason. A program that was asked to end, and then ended with 0, counts as not
finished (docs/decisions/0006): many programs obey a request to end with exit code 0. `cause_of` gives why a living task
waits, or its present trouble.

`facts_after` merges the recorded facts with the facts in a new look. The important fact is the order: whether the
program ended before or after a request to end (`told_to_end`). A recorded order stays, because a later look could only
compare two machines' times, and such times prove no order.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from crawler_lifecycle.model import reasons
from crawler_lifecycle.model.looks import EndRequest, JobLook, JobPhase, OutcomeFacts, TaskRow
from crawler_lifecycle.model.states import Intent, TaskStatus

CAUSES_NEAR_THE_END = (reasons.FINISHING, reasons.BACKOFF, reasons.FAILING)  # the program has ended, or will end soon
# General causes with their precise causes. A job always shows the general cause; only an event shows the precise
# cause. The cluster deletes events after an hour: from then on only the row has the precise cause. POD_CREATE_REJECTED
# is left out: a task is given up only if look after look shows its rejection.
PRECISE_CAUSES = {
    reasons.POD_NOT_CREATED: (reasons.QUOTA,),
    reasons.CONTAINER_CREATING: (reasons.VOLUME, reasons.POD_SANDBOX, reasons.RESOURCE_CLAIM),
}
# A job with one of these causes still has the pod of the recorded facts. With any other cause, a job before its end
# has a new pod, and the recorded facts do not describe the new pod's program.
CAUSES_WITH_THE_SAME_PROGRAM = (
    reasons.POD_TERMINATING,
    reasons.POD_OVERDUE,
    reasons.SIDECAR_HANGING,
    reasons.FINISHING,
    reasons.BACKOFF,
    reasons.FAILING,
)
TWO_CLOCKS = timedelta(minutes=1)  # largest difference between the cluster's clock and ours
# messages for the task's row
ORDER_UNKNOWN = (
    "it ended with exit code {} within a minute of its deletion ({}), and nothing shows that it was done before"
)
ENDED_IN_ORDER = "it was asked to end ({}) before it was done, and ended in order, with exit code {}"
DONE_BEFORE = "it was done before the stop reached it"
RAN_ON = "its main container ended with exit code {}, and another container ran on"
ENDED_BEFORE = "its main container had ended with exit code {} before its job failed ({})"


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


def facts_on_record(row: TaskRow) -> OutcomeFacts | None:
    """Return the task's recorded facts; None without facts, or if the facts belong to another job."""
    return row.facts if row.facts and row.facts.job_uid == row.job_uid else None


def facts_after(row: TaskRow, job: JobLook) -> OutcomeFacts | None:
    """Return the facts about the job's program after the look; None if neither row nor look has valid facts."""
    on_record = facts_on_record(row)
    if on_record and on_record.job_uid != job.uid:  # the look shows another job of the same name
        on_record = None
    if job.facts is None:
        return on_record if _shows_the_same_program(job) else None
    return _merged(on_record, job.facts) if on_record else job.facts


def facts_before_a_stop(row: TaskRow, facts: OutcomeFacts) -> OutcomeFacts | None:
    """Return the facts that a stop has to record before the end of the task's job. None: no new facts."""
    if row.status.is_over or row.job_uid != facts.job_uid:
        return None
    on_record = facts_on_record(row)
    merged = _merged(on_record, facts) if on_record else facts
    return None if merged == on_record else merged


def _shows_the_same_program(job: JobLook) -> bool:
    """Return whether the recorded facts still fit the job's program: the job has ended or is ending."""
    return job.phase.has_ended or job.phase is JobPhase.ENDING or job.cause in CAUSES_WITH_THE_SAME_PROGRAM


def _merged(on_record: OutcomeFacts, new: OutcomeFacts) -> OutcomeFacts:
    """Return the valid facts after new facts about the same job."""
    if on_record.has_ended and not new.has_ended:
        return on_record  # the new facts are an older observation, or show another pod, asked to end
    if not _describe_the_same_pod(on_record, new):
        return new
    if on_record.has_ended:  # a recorded end stays, unless only the new facts show the order or say how it came
        adds_the_order = on_record.told_to_end is None and new.told_to_end is not None
        return new if not _says_nothing(new) and (adds_the_order or _says_nothing(on_record)) else on_record
    if on_record.told_to_end:  # the request came before the end, whatever order the new facts show
        return new.model_copy(update={"told_to_end": True, "told_by": new.told_by or on_record.told_by})
    return new


def _says_nothing(end: OutcomeFacts) -> bool:
    """Return whether a pod was shown as failed without the main container's end and without any reason."""
    return end.exit_code is None and end.reason == reasons.UNEXPLAINED and not end.told_to_end


def _describe_the_same_pod(on_record: OutcomeFacts, new: OutcomeFacts) -> bool:
    """Return whether both facts are about the same pod.

    Recorded facts without a pod come from the Job alone. Such facts count as the same pod's, unless the new facts deny
    a request to end.
    """
    is_from_job_alone = on_record.pod_uid is None and new.told_to_end is not False
    return on_record.pod_uid == new.pod_uid or is_from_job_alone


@dataclass(frozen=True, slots=True)
class Ending:
    """The final values for a task's row."""

    status: TaskStatus
    reason: str | None = None
    exit_code: int | None = None
    message: str | None = None
    ended_at: datetime | None = None


def ending(
    row: TaskRow, job: JobLook, facts: OutcomeFacts | None, intent: Intent, stopped_at: datetime | None
) -> Ending:
    """Return how a task is over after its job has ended. `stopped_at`: when the run's stop began, if known.

    `facts` are valid after the look, and come from the row and the look; `job.facts` come from the look alone.
    If a LOST task's job is found again, the task gets its real ending, but never STOPPED: the task was over before.
    """
    is_stopping = intent is not Intent.RUN and row.status is not TaskStatus.LOST
    # the program ended before its job's deadline, deletion, disruption or sidecar's failure: its end counts
    if facts and facts.ended_by_itself and _failed_for_another_reason(job, facts):
        ended = _ending_by_facts(facts, is_stopping=is_stopping)
        message = ENDED_BEFORE.format(facts.exit_code, job.reason) if facts.succeeded else ended.message
        return ended if is_stopping else replace(ended, message=message)
    if job.phase is JobPhase.SUCCEEDED:
        return _ending_of_success(row, job, facts, intent, is_stopping=is_stopping)
    if is_stopping and _was_stopped(row, job, stopped_at):
        return _ending_by_stop(job, intent)
    if job.phase is JobPhase.FAILED:
        return _ending_of_failure(row, job, facts)
    # the job is VANISHED: its program is gone without a result
    return Ending(TaskStatus.LOST, job.reason, job.exit_code, None, job.ended_at)


def ending_of_given_up(cause: str | None, job: JobLook, facts: OutcomeFacts | None) -> Ending:
    """Return how a task is over after the same trouble for too long. The job is then ended as lingering.

    If only a sidecar hangs, the ended main program decides. Otherwise the task is FAILED, with the trouble as reason.
    """
    if cause == reasons.SIDECAR_HANGING and facts and facts.has_ended:
        ended = _ending_by_facts(facts)
        return Ending(ended.status, ended.reason, ended.exit_code, RAN_ON.format(facts.exit_code), ended.ended_at)
    return Ending(TaskStatus.FAILED, cause, None, job.message)


def ending_of_absent(row: TaskRow, facts: OutcomeFacts | None, intent: Intent, lost_by: str | None = None) -> Ending:
    """Return how a task is over if its job is absent or unreadable for good, by the recorded observations.

    Facts about the program's end decide, except if a stop may have ended the program. Otherwise the task is
    STOPPED in a stop, and LOST without a stop. `lost_by` is the reason for LOST if the row shows no better reason.
    """
    is_stopping = intent is not Intent.RUN
    if facts and facts.has_ended and (facts.ended_by_itself or not is_stopping):
        return _ending_by_facts(facts, is_stopping=is_stopping)
    code = facts.exit_code if facts else None
    if is_stopping:
        return Ending(TaskStatus.STOPPED, _stop_reason(intent), code)
    is_deletion_known = row.cause in (reasons.DELETED_EXTERNALLY, reasons.POD_OVERDUE)
    reason = row.cause if is_deletion_known else lost_by or reasons.JOB_DISAPPEARED
    return Ending(TaskStatus.LOST, reason, code)


def _ending_by_stop(job: JobLook, intent: Intent) -> Ending:
    return Ending(TaskStatus.STOPPED, _stop_reason(intent), job.exit_code, None, job.ended_at)


def _stop_reason(intent: Intent) -> str:
    return reasons.STOPPED_FORCED if intent is Intent.FORCE else reasons.STOPPED


def _ending_by_facts(facts: OutcomeFacts, *, is_stopping: bool = False) -> Ending:
    """Return the ending by facts with the program's end. `is_stopping`: the run has to stop."""
    if not facts.succeeded:
        return Ending(TaskStatus.FAILED, facts.reason, facts.exit_code, facts.message, facts.ended_at)
    if facts.ended_by_itself:
        return Ending(TaskStatus.SUCCEEDED, None, facts.exit_code, DONE_BEFORE if is_stopping else None, facts.ended_at)
    return _ending_of_unfinished(facts.told_by or reasons.DISRUPTED, facts, facts.exit_code, facts.ended_at)


def _ending_of_unfinished(
    author: str, facts: OutcomeFacts | None, exit_code: int | None, ended_at: datetime | None
) -> Ending:
    """Return FAILED, for an end with 0 after a request to end, with the request's author as reason."""
    is_order_unknown = facts is not None and facts.has_ended and facts.told_to_end is None
    message = ORDER_UNKNOWN.format(exit_code, author) if is_order_unknown else ENDED_IN_ORDER.format(author, exit_code)
    return Ending(TaskStatus.FAILED, author, exit_code, message, ended_at)


def _ending_of_success(
    row: TaskRow, job: JobLook, facts: OutcomeFacts | None, intent: Intent, *, is_stopping: bool
) -> Ending:
    if not _was_told_to_end(row, job, facts):
        return Ending(TaskStatus.SUCCEEDED, None, job.exit_code, DONE_BEFORE if is_stopping else None, job.ended_at)
    if is_stopping:
        return _ending_by_stop(job, intent)
    author = job.reason or _author_on_record(row, facts) or reasons.DISRUPTED
    return _ending_of_unfinished(author, facts, job.exit_code, job.ended_at)


def _author_on_record(row: TaskRow, facts: OutcomeFacts | None) -> str | None:
    """Return who asked the program to end, by the facts or the row; None if neither names an author."""
    return (facts.told_by if facts else None) or told_to_end_by(row)


def _ending_of_failure(row: TaskRow, job: JobLook, facts: OutcomeFacts | None) -> Ending:
    """Return the ending after a FAILED job.

    A look that shows the pod decides, and so does a Job that failed on its own: by its deadline or its indexes.
    Otherwise the recorded facts about the program's failure decide: earlier looks took the facts from the pod, and a
    pod shows more than its Job.
    """
    is_failure_on_record = facts is not None and facts.has_ended and not facts.succeeded
    is_by_job_alone = job.reason == reasons.DEADLINE_EXCEEDED or job.reason in reasons.OF_INDEXES
    does_look_decide = job.facts is not None or is_by_job_alone
    if facts and is_failure_on_record and not does_look_decide:
        return _ending_by_facts(facts)
    reason = job.reason
    if reason == reasons.DISRUPTED:  # the look does not show the disruption's author, but the records may
        reason = _author_on_record(row, facts) or reason
    # None keeps the message in the row: if nothing of the job can run, evidence collected earlier says more
    message = None if job.gone else job.message
    code = facts.exit_code if facts and job.exit_code is None else job.exit_code
    return Ending(TaskStatus.FAILED, reason, code, message, job.ended_at)


def _was_told_to_end(row: TaskRow, job: JobLook, facts: OutcomeFacts | None) -> bool:
    """Return whether a program was asked to end before its end with 0.

    The facts decide first, then the look at the job, then the row's cause. If the facts leave open whether the request
    or the end came first, the program counts as asked: a false FAILED costs a second crawl, a false SUCCEEDED loses
    half a crawl.
    """
    if facts and facts.has_ended:
        return not facts.ended_by_itself
    if facts and facts.told_to_end:
        return True
    return is_told_to_end_on_record(row) if job.stop_asked is None else job.stop_asked


def _failed_for_another_reason(job: JobLook, facts: OutcomeFacts) -> bool:
    """Return whether the job failed because the job or its pods were ended, and not by its program's failure."""
    if job.phase is not JobPhase.FAILED:
        return False
    was_deleted = job.end_request in (EndRequest.TO_JOB, EndRequest.TO_PODS)
    differs = bool(facts.succeeded) or facts.reason != job.reason
    return was_deleted or (differs and job.reason not in reasons.OF_INDEXES)


def _was_stopped(row: TaskRow, job: JobLook, stopped_at: datetime | None) -> bool:
    """Return whether a stop ended the job.

    Either the job got the request to end, or a look saw its pods ending, or its pods were ended after the stop began.
    """
    if job.stop_asked or (row.status is TaskStatus.STOPPING and row.cause == reasons.POD_TERMINATING):
        return True
    if job.end_request is not EndRequest.TO_PODS or job.ended_at is None or stopped_at is None:
        return False
    return job.ended_at >= stopped_at - TWO_CLOCKS
