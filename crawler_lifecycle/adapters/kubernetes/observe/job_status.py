"""Look at a job by the Job object alone, without its pods. docs/decisions/0014 numbers the rules."""

from collections.abc import Container
from dataclasses import replace
from datetime import datetime, timedelta

from crawler_lifecycle.adapters.kubernetes.objects import NO_JOB_STATUS, Condition, Job, JobStatus, Pod, is_positive
from crawler_lifecycle.adapters.kubernetes.observe import failure, pods, waiting
from crawler_lifecycle.domain.looks import EndRequest, JobKey, JobLook, JobPhase, Pods, Presence
from crawler_lifecycle.domain.reasons import BACKOFF, FAILING, FINISHING, POD_TERMINATING, SUSPENDED

SLACK = timedelta(minutes=1)  # by which two machines' clocks may differ
SUSPENDING = "suspending"
# The Job waits for its pods to end, and only the pods show whether their end is overdue. SUSPENDING is left out: an
# overdue job is deleted by force, but a suspended Job is to continue.
WAITS_FOR_PODS = (POD_TERMINATING, FAILING)

Stage = tuple[JobPhase, str | None]  # phase and cause


def look_of_job(key: JobKey, job: Job) -> JobLook | None:
    """Return the Job's own look; None if only the pod can decide (rules 12 to 21).

    A failure's reason is preliminary, and a success does not show whether the program was told to end: pods tell more.
    """
    status = job.status or NO_JOB_STATUS
    true = true_conditions(status)
    if complete := true.get("Complete"):
        return _succeeded(key, job, complete)
    if failed := true.get("Failed"):
        return _failed(key, job, failed)
    if deleted := job.metadata.deletion_timestamp:
        cause = POD_TERMINATING if is_positive(status.terminating) else None
        ending = build_look(key, job, JobPhase.ENDING, cause)
        return replace(
            ending,
            presence=Presence.BEING_DELETED,
            end_request=EndRequest.TO_JOB,
            due_at=deleted + job.grace,
        )
    stage = _by_conditions(job, status, true) or _by_counters(status)
    return build_look(key, job, *stage) if stage else None


def _by_conditions(job: Job, status: JobStatus, true: Container[str]) -> Stage | None:
    """Return the stage by the Job's conditions: failing, finishing, suspended or not synced (rules 7 to 10)."""
    if "FailureTarget" in true:
        return JobPhase.RUNNING, FAILING
    if "SuccessCriteriaMet" in true:
        return JobPhase.RUNNING, FINISHING
    if "Suspended" in true or (job.spec is not None and job.spec.suspend):
        has_pods = is_positive(status.active) or is_positive(status.terminating)
        return (JobPhase.RUNNING, SUSPENDING) if has_pods else (JobPhase.WAITING, SUSPENDED)
    return (JobPhase.WAITING, waiting.NOT_SYNCED) if status.start_time is None else None


def _by_counters(status: JobStatus) -> Stage | None:
    """Return the stage by the Job's counts of pods that end or have ended (rules 11 to 13), or of a Ready pod (20)."""
    if is_positive(status.active):
        return (JobPhase.RUNNING, None) if is_positive(status.ready) else None
    if is_positive(status.terminating):
        return JobPhase.RUNNING, POD_TERMINATING
    if is_positive(status.succeeded):
        return JobPhase.RUNNING, FINISHING
    return (JobPhase.RUNNING, BACKOFF) if is_positive(status.failed) else None


def needs_its_pods(look: JobLook | None, job: Job) -> bool:
    """Return whether the look needs pods. A deleted Job needs pods only to learn whether they had ended before."""
    if look is None or look.phase.has_ended:
        return True
    return look.phase is JobPhase.ENDING and look.cause is None and is_positive((job.status or NO_JOB_STATUS).active)


def may_be_overdue(look: JobLook | None) -> bool:
    """Return whether only pods can show that the job is overdue."""
    return look is not None and look.phase is JobPhase.RUNNING and look.cause in WAITS_FOR_PODS


def tells_enough(look: JobLook) -> bool:
    """Return whether the look is usable without pods that cannot be read."""
    return look.phase is JobPhase.ENDING or look.cause in WAITS_FOR_PODS


def true_conditions(status: JobStatus) -> dict[str, Condition]:
    """Return true conditions by type. Sorting decides between contradictory duplicates, in whatever order they come."""
    conditions = [condition for condition in status.conditions or () if condition.is_true]
    if len(conditions) > 1:
        conditions.sort(key=repr)
    return {condition.type or "": condition for condition in conditions}


def end_of(status: JobStatus | None) -> Condition | None:
    """Return the condition with which a Job has ended; None while the Job goes on."""
    true = true_conditions(status or NO_JOB_STATUS)
    return true.get("Complete") or true.get("Failed")


def _succeeded(key: JobKey, job: Job, complete: Condition) -> JobLook:
    """Return the look at a Complete Job: all containers exited with 0.

    The Job's time is when the controller noticed the end, later than the end itself. So the Job alone does not show
    whether its program was told to end before.
    """
    at = (job.status or NO_JOB_STATUS).completion_time or complete.last_transition_time
    return replace(_ended(key, job, JobPhase.SUCCEEDED, at, exit_code=0), end_request=EndRequest.UNKNOWN)


def _failed(key: JobKey, job: Job, failed: Condition) -> JobLook:
    look = _ended(key, job, JobPhase.FAILED, failed.last_transition_time)
    return replace(
        look, reason=failure.reason(failed, None), message=failed.message, exit_code=failure.exit_code(failed)
    )


def _ended(key: JobKey, job: Job, phase: JobPhase, at: datetime | None, exit_code: int | None = None) -> JobLook:
    status, deleted = job.status or NO_JOB_STATUS, job.metadata.deletion_timestamp
    may_run = is_positive(status.active) or is_positive(status.terminating)
    # a deletion long after the end (by the time to live or a person) did not tell the program to end
    is_told = deleted is not None and (at is None or deleted - at <= SLACK)
    return JobLook(
        *key,
        job.metadata.uid,
        job.metadata.name,
        phase,
        exit_code=exit_code,
        started_at=status.start_time,
        ended_at=at,
        presence=Presence.PRESENT if deleted is None else Presence.BEING_DELETED,
        pods=Pods.MAY_RUN if may_run else Pods.ENDED,
        end_request=EndRequest.by(is_told),
    )


def build_look(key: JobKey, job: Job, phase: JobPhase, cause: str | None = None, pod: Pod | None = None) -> JobLook:
    begun = (job.status or NO_JOB_STATUS).start_time if phase is JobPhase.RUNNING else None
    started = (pods.started_at(pod) if pod else None) or begun
    uid, name = job.metadata.uid, job.metadata.name
    return JobLook(*key, uid, name, phase, cause, started_at=started)


def unclear_look(key: JobKey, name: str, message: str, uid: str = "") -> JobLook:
    return JobLook(*key, uid, name, JobPhase.UNCLEAR, message=message)
