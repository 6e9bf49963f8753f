"""Rules for merging a task's recorded outcome facts with the facts in a new look.

The important fact is the order: whether the program ended before or after a request to end (`told_to_end`). An order on
record stays, because a later look could only compare two machines' times, and such times prove no order.
"""

from crawler_lifecycle.model.looks import JobLook, JobPhase, TaskRow
from crawler_lifecycle.model.outcome_facts import OutcomeFacts
from crawler_lifecycle.model.reasons import (
    BACKOFF,
    FAILING,
    FINISHING,
    POD_OVERDUE,
    POD_TERMINATING,
    SIDECAR_HANGING,
    UNEXPLAINED,
)

# A job with one of these causes still has the pod of the recorded facts. With any other cause, a job before its end
# has a new pod, and the recorded facts do not describe the new pod's program.
CAUSES_WITH_THE_SAME_PROGRAM = (POD_TERMINATING, POD_OVERDUE, SIDECAR_HANGING, FINISHING, BACKOFF, FAILING)


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
    return end.exit_code is None and end.reason == UNEXPLAINED and not end.told_to_end


def _describe_the_same_pod(on_record: OutcomeFacts, new: OutcomeFacts) -> bool:
    """Return whether both facts are about the same pod.

    Recorded facts without a pod come from the Job alone. Such facts count as the same pod's, unless the new facts deny
    a request to end.
    """
    is_from_job_alone = on_record.pod_uid is None and new.told_to_end is not False
    return on_record.pod_uid == new.pod_uid or is_from_job_alone
