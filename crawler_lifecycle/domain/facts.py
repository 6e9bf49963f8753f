"""Merge a task's outcome facts on record with the facts in a new look.

The important fact is whether the program ended before or after a request to end. The order on record stands, because
a later look would compare dates by two machines' clocks, and such dates prove no order.
"""

from crawler_lifecycle.contract.outcome_facts import OutcomeFacts
from crawler_lifecycle.domain.looks import JobLook, JobPhase, TaskRow
from crawler_lifecycle.domain.reasons import BACKOFF, FAILING, FINISHING, POD_OVERDUE, POD_TERMINATING, SIDECAR_HANGING

# with these causes a job still shows the program that the facts on record describe
OF_THE_SAME_PROGRAM = (POD_TERMINATING, POD_OVERDUE, SIDECAR_HANGING, FINISHING, BACKOFF, FAILING)


def facts_on_record(row: TaskRow) -> OutcomeFacts | None:
    """Return the task's facts on record, unless they belong to another job."""
    return row.facts if row.facts and row.facts.job_uid == row.job_uid else None


def facts_after(row: TaskRow, job: JobLook) -> OutcomeFacts | None:
    """Return the facts about the job's program after the look."""
    known = facts_on_record(row)
    if known and known.job_uid != job.uid:
        known = None
    if job.facts is None:
        return known if _shows_the_same_program(job) else None
    return _merged(known, job.facts) if known else job.facts


def facts_before_a_stop(row: TaskRow, facts: OutcomeFacts) -> OutcomeFacts | None:
    """Return the facts that a stop has to record before the end of the task's job. None: no new facts."""
    if row.status.is_over or row.job_uid != facts.job_uid:
        return None
    known = facts_on_record(row)
    after = _merged(known, facts) if known else facts
    return None if after == known else after


def _shows_the_same_program(job: JobLook) -> bool:
    """Return whether facts on record still hold: a job that runs or waits again has another pod."""
    return job.phase.has_ended or job.phase is JobPhase.ENDING or job.cause in OF_THE_SAME_PROGRAM


def _merged(known: OutcomeFacts, new: OutcomeFacts) -> OutcomeFacts:
    """Return the facts on record with the news. Another pod's facts replace the facts on record.

    Facts without a pod (from the Job alone) count as the same pod's, unless the new facts deny a request to end.
    """
    if known.has_ended and not new.has_ended:
        return known  # an older observation, or another pod that was told to end
    is_from_job_alone = known.pod_uid is None and new.told_to_end is not False
    if known.pod_uid != new.pod_uid and not is_from_job_alone:
        return new
    if known.has_ended and (known.told_to_end is not None or new.told_to_end is None):
        return known  # the order on record stands, or the new facts do not know the order either
    if known.told_to_end:
        return new.model_copy(update={"told_to_end": True, "told_by": new.told_by or known.told_by})
    return new
