"""Pods that outlived their Job, as the remains of a provably absent Job."""

from collections.abc import Sequence
from dataclasses import replace

from crawler_lifecycle.adapters.kubernetes.objects import Pod
from crawler_lifecycle.adapters.kubernetes.observe import failure, job_status, pods, termination
from crawler_lifecycle.domain.looks import EndRequest, JobKey, JobLook, JobPhase, Pods, Presence
from crawler_lifecycle.domain.reasons import ORPHAN_PODS


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
    request = EndRequest.of(pod.metadata.deletion_timestamp is not None)
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
    return replace(ended, phase=JobPhase.SUCCEEDED, end_request=EndRequest.of(was_told), reason=author)
