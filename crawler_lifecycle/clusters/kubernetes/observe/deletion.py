"""Looks at Jobs in deletion, at Jobs whose deletion does not end, and at orphan pods.

`looking.py` and `pod_status.py` call these functions for Jobs that were deleted and for absent Jobs.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from crawler_lifecycle.clusters.kubernetes.objects import NO_JOB_STATUS, Job, Pod, is_positive
from crawler_lifecycle.clusters.kubernetes.observe import failure, job_status, pods, termination
from crawler_lifecycle.model.looks import EndRequest, JobKey, JobLook, JobPhase, Pods, Presence
from crawler_lifecycle.model.reasons import FINISHING, ORPHAN_PODS, POD_OVERDUE, POD_TERMINATING


def look_of_orphans(key: JobKey, name: str, own_pods: Sequence[Pod]) -> JobLook | None:
    """Return the look at a provably absent Job by its remaining pods; None without pods.

    A pod that may run decides before pods that have ended. Pods of several or unknown Jobs make the look unclear.
    """
    may_run = [pod for pod in own_pods if not pods.has_ended(pod)]
    pod = pods.primary_pod(may_run or own_pods)
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
        return _look_of_ended_orphan(living, pod)
    return replace(living, started_at=pods.started_at(pod), due_at=pods.due_at(own_pods))


def _look_of_ended_orphan(living: JobLook, pod: Pod) -> JobLook:
    """Return the look by an ended orphan pod; `living` is the look that the pod would get before its end.

    No Job confirms a success, so a success needs the main container's exit code 0. Otherwise the look is unclear.
    """
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
    was_told = termination.were_told_to_end([pod])
    author = None if was_told is False else termination.author_of_request([pod])
    return replace(ended, phase=JobPhase.SUCCEEDED, end_request=EndRequest.by(was_told), reason=author)


def mark_overdue(look: JobLook, now: datetime, patience: timedelta) -> JobLook:
    """Mark a job as overdue if its end was due more than `patience` ago: its node is dead, or a finalizer holds it."""
    if look.gone or look.due_at is None or now - look.due_at <= patience:
        return look
    return replace(look, cause=POD_OVERDUE)


def look_of_deleted_job(look: JobLook, own_pods: Sequence[Pod]) -> JobLook:
    """Return the look with cause POD_TERMINATING if the deletion met living pods, FINISHING if all had ended before.

    The cause has to be recorded now, since the pods may be gone before the deletion completes. If a pod is in an
    unknown phase, or the pods do not show which came first, the look stays without a cause.
    """
    if any(pods.lives(pod) for pod in own_pods):
        return replace(look, cause=POD_TERMINATING)
    if not all(pods.has_ended(pod) for pod in own_pods):
        return look
    was_told = termination.were_told_to_end(own_pods)
    if was_told is None:
        return look
    return replace(look, cause=POD_TERMINATING if was_told else FINISHING)


def look_of_held_job(look: JobLook, job: Job, own_pods: Sequence[Pod]) -> JobLook:
    """Return the look at a Job whose deletion should have ended long ago.

    If pods may still run, the cause is POD_TERMINATING after a request to end, and ORPHAN_PODS without a request. If
    only the Job's status counts pods, the look stays unchanged. Otherwise a finalizer holds the Job: the presence is
    HELD, and the look is as of a Job that is absent.
    """
    may_run = [pod for pod in own_pods if not pods.has_ended(pod)]
    if may_run:
        due_at = not_before_creation(job, pods.due_at(may_run))
        return replace(look, due_at=due_at, cause=POD_TERMINATING if due_at else ORPHAN_PODS)
    status = job.status or NO_JOB_STATUS
    if is_positive(status.active) or is_positive(status.terminating):
        return look  # the list does not show the counted pods, and the pods may run
    key = (look.task, look.attempt)
    remains = look_of_orphans(key, look.name, own_pods)
    if remains is None:
        unclear = job_status.unclear_look(key, look.name, "the Job is being deleted, and no pod is left", look.uid)
        remains = replace(unclear, pods=Pods.NONE)
    return replace(remains, presence=Presence.HELD)


def not_before_creation(job: Job, due_at: datetime | None) -> datetime | None:
    """Return the time when pods should have ended, but at least the Job's creation; None stays None.

    Pods are younger than their Job. An older time comes from a wrong clock, and would make the job overdue too early.
    """
    created_at = job.metadata.creation_timestamp
    return due_at if due_at is None or created_at is None else max(due_at, created_at)
