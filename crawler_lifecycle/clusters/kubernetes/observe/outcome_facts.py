"""Read the outcome facts of a job from its pod: exit code, times, message, and whether its program was asked to end.

Looks bring the facts with the job (`facts_of`); stops record the facts before they delete the pods (`facts_by_uid`).
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from crawler_lifecycle.clusters.kubernetes.objects import Job, Pod
from crawler_lifecycle.clusters.kubernetes.observe import failure, pods
from crawler_lifecycle.model.crawl_results import read_result
from crawler_lifecycle.model.looks import LONGEST_MESSAGE, JobKey, JobLook, JobPhase, OutcomeFacts
from crawler_lifecycle.model.reasons import POD_TERMINATING


def facts_of(look: JobLook, job: Job | None, own_pods: Sequence[Pod]) -> OutcomeFacts | None:
    """Return the facts about the job of the look. None: neither its pods nor the Job show a fact."""
    if look.phase.has_ended:
        pod = pods.ended_pod(own_pods, pods.FAILED if look.phase is JobPhase.FAILED else pods.SUCCEEDED)
    else:
        pod = pods.primary_pod(own_pods)
    if pod is None:
        return _facts_without_pod(look)
    job_deleted_at = job.metadata.deletion_timestamp if job else None
    facts = _facts_of_pod(look.uid, pod, job_deleted_at, has_job_failed=look.phase is JobPhase.FAILED)
    if facts is None and job is not None and look.phase is JobPhase.SUCCEEDED:
        return _facts_of_silent_pod(pod, look, job_deleted_at)
    return facts


def facts_by_uid(pods_by_key: Mapping[JobKey, Sequence[Pod]], uids: Mapping[JobKey, str]) -> dict[JobKey, OutcomeFacts]:
    """Return the facts about every job, only from pods of the Job with the recorded uid (`uids`)."""
    facts: dict[JobKey, OutcomeFacts] = {}
    for key in pods_by_key.keys() & uids.keys():
        pod = pods.primary_pod(pod for pod in pods_by_key[key] if pods.controller_uid(pod) == uids[key])
        # None: the stop itself may have deleted the Job, so the deletion must not count as another client's request
        if pod and (facts_of_job := _facts_of_pod(uids[key], pod, None)):
            facts[key] = facts_of_job
    return facts


def _facts_of_pod(
    job_uid: str, pod: Pod, job_deleted_at: datetime | None, *, has_job_failed: bool = False
) -> OutcomeFacts | None:
    """Return facts about the program's end, or the fact that a running program was asked to end; None without facts.

    The pods of a failed Job have ended: the main container's end counts in every phase of the pod.
    """
    told_by = failure.author_of_request([pod], job_deleted_at)
    if pods.has_ended(pod):
        return _facts_of_end(job_uid, pod, told_by)
    if not has_job_failed and pods.phase(pod) not in (pods.PENDING, pods.RUNNING):
        return None  # an unknown phase proves no fact
    end = pods.end_of_main(pod)
    if end is not None and end.exit_code is not None and not pods.main_may_restart(pod):
        return _facts_of_end(job_uid, pod, told_by)
    if pod.metadata.deletion_timestamp is not None:
        return OutcomeFacts(job_uid=job_uid, pod_uid=pod.metadata.uid, told_to_end=True, told_by=told_by)
    return None


def _facts_without_pod(look: JobLook) -> OutcomeFacts | None:
    """Return the only fact that a Job shows without a pod: its pods were asked to end while they ran; else None."""
    is_told = look.cause == POD_TERMINATING and not look.phase.has_ended
    return OutcomeFacts(job_uid=look.uid, told_to_end=True, told_by=look.reason) if is_told else None


def _facts_of_silent_pod(pod: Pod, look: JobLook, job_deleted_at: datetime | None) -> OutcomeFacts | None:
    """Return the facts about a complete Job whose pod does not show its main container's end.

    The Job proves the exit code 0. None: pod or Job show that the program was not asked to end. Otherwise the request,
    or an unknown order, has to be recorded: without these facts the task's row would decide, and a row without a
    request would turn half a crawl into a success (docs/decisions/0006, rule 4).
    """
    told_to_end = failure.was_told_to_end(pod)
    if told_to_end is False or look.stop_asked is False:
        return None
    return OutcomeFacts(
        job_uid=look.uid,
        pod_uid=pod.metadata.uid,
        succeeded=True,
        told_to_end=told_to_end,
        told_by=failure.author_of_request([pod], job_deleted_at),
        exit_code=look.exit_code,
        ended_at=look.ended_at,
    )


def _facts_of_end(job_uid: str, pod: Pod, told_by: str | None) -> OutcomeFacts | None:
    """Return the facts about a program that has ended; None for a success that the exit code does not prove.

    The main container's end counts, and not the ends of the containers beside it, which decide the pod's phase as well.
    """
    end, code = pods.end_of_main(pod), pods.exit_code(pod)
    if pods.phase(pod) == pods.SUCCEEDED and code != 0:
        return None
    succeeded = code == 0
    told_to_end = failure.was_told_to_end(pod)
    message = failure.message(None, pod)
    result, _ = read_result(end.message or "") if end else (None, None)
    return OutcomeFacts(
        job_uid=job_uid,
        pod_uid=pod.metadata.uid,
        succeeded=succeeded,
        told_to_end=told_to_end,
        told_by=None if told_to_end is False else told_by,
        reason=None if succeeded else failure.reason(None, pod),
        exit_code=code,
        message=message[-LONGEST_MESSAGE:] if message else None,
        started_at=pods.started_at(pod),
        ended_at=end.finished_at if end else None,
        result=result,
    )
