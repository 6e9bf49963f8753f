"""Looks at Jobs in deletion: whether pods still live, whether the Job is overdue, and which remains are there.

Pods that outlived a provably absent Job are the remains of that Job.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from crawler_lifecycle.adapters.kubernetes.objects import NO_JOB_STATUS, Job, Pod, is_positive
from crawler_lifecycle.adapters.kubernetes.observe import failure, job_status, pods, termination
from crawler_lifecycle.domain.looks import EndRequest, JobKey, JobLook, JobPhase, Pods, Presence
from crawler_lifecycle.domain.reasons import FINISHING, ORPHAN_PODS, POD_OVERDUE, POD_TERMINATING


def look_of_orphans(key: JobKey, name: str, own_pods: Sequence[Pod]) -> JobLook | None:
    """Return the look at a provably absent Job by its remaining pods; None without pods.

    A pod that may run decides before pods that have ended.
    """
    pod = pods.primary_pod([pod for pod in own_pods if not pods.has_ended(pod)] or own_pods)
    if pod is None:
        return None
    job_uids = {pods.controller_uid(pod) for pod in own_pods}
    job_uid = pods.controller_uid(pod)
    if not job_uid or len(job_uids) > 1:
        run_state = Pods.ENDED if pods.has_ended(pod) else Pods.MAY_RUN
        problem = f"pod {pod.metadata.name} and the other pods of the task do not name the same Job"
        return replace(job_status.unclear_look(key, name, problem), pods=run_state, presence=Presence.ABSENT)
    request = EndRequest.by(pod.metadata.deletion_timestamp is not None)
    living = JobLook(*key, job_uid, name, JobPhase.ENDING, ORPHAN_PODS, presence=Presence.ABSENT, end_request=request)
    if pods.has_ended(pod):
        return _after_the_end(living, pod)
    return replace(living, started_at=pods.started_at(pod), due_at=pods.due_at(own_pods))


def _after_the_end(living: JobLook, pod: Pod) -> JobLook:
    """Return the look by a pod that has ended. Success needs the main container's exit code 0: no Job confirms it."""
    end, exit_code = pods.end_of_main(pod), pods.exit_code(pod)
    ended = replace(
        living,
        cause=None,
        exit_code=exit_code,
        pods=Pods.ENDED,
        started_at=pods.started_at(pod),
        ended_at=end.finished_at if end else None,
    )
    if pods.phase(pod) == pods.FAILED:
        reason, message = failure.reason(None, pod), failure.message(None, pod)
        return replace(ended, phase=JobPhase.FAILED, reason=reason, message=message)
    if exit_code != 0:
        problem = f"pod {pod.metadata.name} succeeded, but not its main container"
        return replace(ended, phase=JobPhase.UNCLEAR, message=problem)
    was_told = termination.told_to_end([pod])
    author = None if was_told is False else termination.told_by([pod])
    return replace(ended, phase=JobPhase.SUCCEEDED, end_request=EndRequest.by(was_told), reason=author)


def mark_overdue(look: JobLook, now: datetime, patience: timedelta) -> JobLook:
    """Mark a job as overdue if its end was due too long ago: its node is dead, or a finalizer holds the object."""
    if look.gone or look.due_at is None or now - look.due_at <= patience:
        return look
    return replace(look, cause=POD_OVERDUE)


def look_of_deleted_job(look: JobLook, own_pods: Sequence[Pod]) -> JobLook:
    """Return the look with a cause that says whether pods lived at the Job's deletion.

    Later the pods may be gone, before the deletion completes. Pods in an unknown phase may live, or may have ended
    before the deletion: such pods decide neither way.
    """
    if any(pods.lives(pod) for pod in own_pods):
        return replace(look, cause=POD_TERMINATING)
    if not all(pods.has_ended(pod) for pod in own_pods):
        return look
    was_told = termination.told_to_end(own_pods)
    return look if was_told is None else replace(look, cause=POD_TERMINATING if was_told else FINISHING)


def look_of_held_job(look: JobLook, job: Job, own_pods: Sequence[Pod]) -> JobLook:
    """Return the look at a Job with a long overdue deletion: a finalizer holds the Job, or pods without a request."""
    living = [pod for pod in own_pods if not pods.has_ended(pod)]
    if living:
        due = since_its_job(job, pods.due_at(living))
        return replace(look, due_at=due, cause=POD_TERMINATING if due else ORPHAN_PODS)
    status = job.status or NO_JOB_STATUS
    if is_positive(status.active) or is_positive(status.terminating):
        return look
    key = (look.task, look.attempt)
    remains = look_of_orphans(key, look.name, own_pods)
    if remains is None:
        unclear = job_status.unclear_look(key, look.name, "the Job is being deleted, and no pod is left", look.uid)
        remains = replace(unclear, pods=Pods.NONE)
    return replace(remains, presence=Presence.HELD)


def since_its_job(job: Job, at: datetime | None) -> datetime | None:
    """Return the later time: `at`, or the Job's creation.

    Pods are younger than their Job: an older time came from a deviating clock and would exaggerate the age.
    """
    created_at = job.metadata.creation_timestamp
    return at if at is None or created_at is None else max(at, created_at)
