"""Pods that outlived their Job, as the remains of a provably absent Job."""

from collections.abc import Sequence
from dataclasses import replace

from crawler_lifecycle.adapters.kubernetes.objects import Pod
from crawler_lifecycle.adapters.kubernetes.observe import failure, job_status, pods, termination
from crawler_lifecycle.domain.looks import EndRequest, JobKey, JobLook, JobPhase, Pods, Presence
from crawler_lifecycle.domain.reasons import ORPHAN_PODS


def look_of_orphans(key: JobKey, name: str, own_pods: Sequence[Pod]) -> JobLook | None:
    """Return the look at a provably absent Job by its remaining pods; None without pods."""
    pod = pods.primary_pod([pod for pod in own_pods if not pods.has_ended(pod)] or own_pods)
    if pod is None:
        return None
    uids = {pods.controller_uid(pod) for pod in own_pods}
    uid = pods.controller_uid(pod)
    if not uid or len(uids) > 1:
        run_state = Pods.ENDED if pods.has_ended(pod) else Pods.MAY_RUN
        problem = f"pod {pod.metadata.name} and the other pods of the task do not name the same Job"
        return replace(job_status.unclear_look(key, name, problem), pods=run_state, presence=Presence.ABSENT)
    request = EndRequest.of(pod.metadata.deletion_timestamp is not None)
    look = JobLook(*key, uid, name, JobPhase.ENDING, ORPHAN_PODS, presence=Presence.ABSENT, end_request=request)
    if not pods.has_ended(pod):
        return replace(look, started_at=pods.started_at(pod), due_at=pods.due_at(own_pods))
    end, code = pods.end_of_main(pod), pods.exit_code(pod)
    ended = replace(
        look,
        cause=None,
        exit_code=code,
        pods=Pods.ENDED,
        started_at=pods.started_at(pod),
        ended_at=end.finished_at if end else None,
    )
    if pods.phase(pod) == pods.FAILED:
        why, what = failure.reason(None, pod), failure.message(None, pod)
        return replace(ended, phase=JobPhase.FAILED, reason=why, message=what)
    if code == 0:
        was_told = termination.told_to_end([pod])
        author = None if was_told is False else termination.told_by([pod])
        return replace(ended, phase=JobPhase.SUCCEEDED, end_request=EndRequest.of(was_told), reason=author)
    message = f"pod {pod.metadata.name} succeeded, but not its main container"
    return replace(ended, phase=JobPhase.UNCLEAR, message=message)
