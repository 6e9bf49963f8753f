"""Look at a job by the Job object alone, and decide whether the look needs the Job's pods.

docs/decisions/0014 numbers the rules. `pod_status.py` completes the look by the pods. `deciding_pod` chooses the pod
that explains a job: evidence, log and removal have to show the same pod.
"""

from collections.abc import Container, Iterable
from dataclasses import replace
from datetime import datetime

from crawler_lifecycle.clusters.kubernetes.objects import NO_JOB_STATUS, Condition, Job, JobStatus, Pod, is_positive
from crawler_lifecycle.clusters.kubernetes.observe import failure, pods
from crawler_lifecycle.clusters.kubernetes.observe.jobs import DatedJob
from crawler_lifecycle.model.looks import EndRequest, JobKey, JobLook, JobPhase, Pods, Presence
from crawler_lifecycle.model.reasons import (
    BACKOFF,
    FAILING,
    FINISHING,
    NOT_SYNCED,
    POD_TERMINATING,
    SUSPENDED,
    SUSPENDING,
)

# With these causes the Job waits for its pods to end, and only the pods show whether their end is overdue. SUSPENDING
# is left out: an overdue job is deleted by force, but a suspended Job is to continue.
CAUSES_WAITING_FOR_PODS = (POD_TERMINATING, FAILING)

PhaseAndCause = tuple[JobPhase, str | None]


def look_of_job(key: JobKey, job: Job) -> JobLook | None:
    """Return the look by the Job alone; None if the Job counts no pod, or an active pod that is not Ready.

    Without a look by the Job, pods and events decide (rules 14 to 19, and 21).

    A failure's reason is preliminary, and a success does not show whether the program was asked to end: pods show more.
    """
    status = job.status or NO_JOB_STATUS
    conditions = true_conditions(status)
    if complete := conditions.get("Complete"):
        return _look_of_success(key, job, complete)
    if failed := conditions.get("Failed"):
        return _look_of_failure(key, job, failed)
    if deleted_at := job.metadata.deletion_timestamp:
        cause = POD_TERMINATING if is_positive(status.terminating) else None
        ending = build_look(key, job, JobPhase.ENDING, cause)
        return replace(
            ending,
            presence=Presence.BEING_DELETED,
            end_request=EndRequest.TO_JOB,
            due_at=deleted_at + job.grace,
        )
    phase_and_cause = _by_conditions(job, status, conditions) or _by_counters(status)
    return build_look(key, job, *phase_and_cause) if phase_and_cause else None


def _by_conditions(job: Job, status: JobStatus, conditions: Container[str]) -> PhaseAndCause | None:
    """Return failing, finishing, suspended or not synced by the Job's true conditions (rules 7 to 10); else None."""
    if "FailureTarget" in conditions:
        return JobPhase.RUNNING, FAILING
    if "SuccessCriteriaMet" in conditions:
        return JobPhase.RUNNING, FINISHING
    if "Suspended" in conditions or (job.spec is not None and job.spec.suspend):
        has_pods = is_positive(status.active) or is_positive(status.terminating)
        return (JobPhase.RUNNING, SUSPENDING) if has_pods else (JobPhase.WAITING, SUSPENDED)
    return (JobPhase.WAITING, NOT_SYNCED) if status.start_time is None else None


def _by_counters(status: JobStatus) -> PhaseAndCause | None:
    """Return phase and cause by the Job's counts of pods: a Ready pod (rule 20), or pods that end or have ended (11 to
    13). None: the Job counts no pod, or an active pod that is not Ready.
    """
    if is_positive(status.active):
        return (JobPhase.RUNNING, None) if is_positive(status.ready) else None
    if is_positive(status.terminating):
        return JobPhase.RUNNING, POD_TERMINATING
    if is_positive(status.succeeded):
        return JobPhase.RUNNING, FINISHING
    return (JobPhase.RUNNING, BACKOFF) if is_positive(status.failed) else None


def needs_its_pods(look: JobLook | None, job: Job) -> bool:
    """Return whether pods show more of a watched job than its Job does.

    True without a look and for a job that has ended. True for a deleted Job only while the Job counts an active pod,
    which may have ended before the deletion, and no terminating pod: a terminating pod has already been asked to end.
    """
    if look is None or look.phase.has_ended:
        return True
    is_terminating = look.cause == POD_TERMINATING
    has_active_pod = is_positive((job.status or NO_JOB_STATUS).active)
    return look.phase is JobPhase.ENDING and not is_terminating and has_active_pod


def may_be_overdue(look: JobLook | None) -> bool:
    """Return whether only pods can show that the job is overdue."""
    return look is not None and look.phase is JobPhase.RUNNING and look.cause in CAUSES_WAITING_FOR_PODS


def is_usable_without_pods(look: JobLook) -> bool:
    """Return whether the look stays usable if its pods cannot be read: the Job shows already that the job is to end."""
    return look.phase is JobPhase.ENDING or look.cause in CAUSES_WAITING_FOR_PODS


def remark_on_pods(job: Job) -> str | None:
    """Return a sentence if two pods of the Job may run at once; None otherwise, as for our own Jobs.

    A Job whose `podReplacementPolicy` is not Failed, from another service or edited later, gets a second pod while the
    first is still ending.
    """
    status = job.status or NO_JOB_STATUS
    number = (status.active or 0) + (status.terminating or 0)
    if number < 2 or not is_positive(status.active):
        return None
    return f"job {job.metadata.name} has {number} pods that may run at once: see its podReplacementPolicy"


def true_conditions(status: JobStatus) -> dict[str, Condition]:
    """Return the true conditions by type. Among duplicates the last in sorted order counts, not the last sent."""
    conditions = [condition for condition in status.conditions or () if condition.is_true]
    if len(conditions) > 1:
        conditions.sort(key=repr)
    return {condition.type or "": condition for condition in conditions}


def end_of(status: JobStatus | None) -> Condition | None:
    """Return the condition with which a Job has ended; None while the Job continues."""
    conditions = true_conditions(status or NO_JOB_STATUS)
    return conditions.get("Complete") or conditions.get("Failed")


def _look_of_success(key: JobKey, job: Job, complete: Condition) -> JobLook:
    """Return the look at a Complete Job: all containers exited with 0.

    The Job's time is when the controller noticed the end, later than the end itself. So the Job alone does not show
    whether its program was asked to end before its end.
    """
    noticed_at = (job.status or NO_JOB_STATUS).completion_time or complete.last_transition_time
    return replace(_look_of_end(key, job, JobPhase.SUCCEEDED, noticed_at, exit_code=0), end_request=EndRequest.UNKNOWN)


def _look_of_failure(key: JobKey, job: Job, failed: Condition) -> JobLook:
    look = _look_of_end(key, job, JobPhase.FAILED, failed.last_transition_time)
    return replace(
        look, reason=failure.reason(failed, None), message=failed.message, exit_code=failure.exit_code(failed)
    )


def _look_of_end(
    key: JobKey, job: Job, phase: JobPhase, ended_at: datetime | None, exit_code: int | None = None
) -> JobLook:
    status, deleted_at = job.status or NO_JOB_STATUS, job.metadata.deletion_timestamp
    may_run = is_positive(status.active) or is_positive(status.terminating)
    # a deletion long after the end (by the Job's time to live, or a person) did not ask the program to end
    is_told = deleted_at is not None and (ended_at is None or deleted_at - ended_at <= failure.CLOCK_DIFFERENCE)
    return JobLook(
        *key,
        job.metadata.uid,
        job.metadata.name,
        phase,
        exit_code=exit_code,
        started_at=status.start_time,
        ended_at=ended_at,
        presence=Presence.PRESENT if deleted_at is None else Presence.BEING_DELETED,
        pods=Pods.MAY_RUN if may_run else Pods.ENDED,
        end_request=EndRequest.by(is_told),
    )


def build_look(key: JobKey, job: Job, phase: JobPhase, cause: str | None = None, pod: Pod | None = None) -> JobLook:
    """Return the look at a present job; its start is by the pod's main container, or else by the running Job."""
    job_started_at = (job.status or NO_JOB_STATUS).start_time if phase is JobPhase.RUNNING else None
    started_at = (pods.started_at(pod) if pod else None) or job_started_at
    metadata = job.metadata
    version = metadata.resource_version
    return JobLook(*key, metadata.uid, metadata.name, phase, cause, started_at=started_at, version=version)


def unclear_look(key: JobKey, name: str, message: str, uid: str = "") -> JobLook:
    """Return the look at a job that could not be observed; the message says why."""
    return JobLook(*key, uid, name, JobPhase.UNCLEAR, message=message)


def deciding_pod(job: Job | DatedJob | None, listed: Iterable[Pod]) -> Pod | None:
    """Return the pod that decided the job's end, or describes the job now; None without pods of the job.

    Pods of another Job with the same name are left out. Without the Job, all listed pods count.
    """
    own_pods = [pod for pod in listed if job is None or pods.controller_uid(pod) in (None, job.metadata.uid)]
    end = end_of(job.status) if job else None
    if end is None:
        return pods.primary_pod(own_pods)
    return pods.ended_pod(own_pods, pods.SUCCEEDED if end.type == "Complete" else pods.FAILED)
