"""Outcome facts of a job, read from its pod."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from crawler_lifecycle.adapters.kubernetes.objects import Job, Pod
from crawler_lifecycle.adapters.kubernetes.observe import failure, pods, termination
from crawler_lifecycle.contract.outcome_facts import LONGEST_MESSAGE, OutcomeFacts
from crawler_lifecycle.domain.crawl_results import read_result
from crawler_lifecycle.domain.looks import JobKey, JobLook, JobPhase
from crawler_lifecycle.domain.reasons import POD_TERMINATING


def facts_of(look: JobLook, job: Job | None, own_pods: Sequence[Pod]) -> OutcomeFacts | None:
    """Return the looked-at job's facts. None: neither its pods nor the Job show a fact."""
    ended_as = pods.FAILED if look.phase is JobPhase.FAILED else pods.SUCCEEDED if look.phase.has_ended else None
    pod = pods.ended_pod(own_pods, ended_as) if ended_as else pods.primary_pod(own_pods)
    if pod is None:
        return _facts_without_pod(look)
    job_deleted = job.metadata.deletion_timestamp if job else None
    facts = _of_pod(look.uid, pod, job_deleted)
    is_complete = job is not None and look.phase is JobPhase.SUCCEEDED
    return _facts_of_silent_pod(pod, look, job_deleted) if facts is None and is_complete else facts


def facts_by_uid(pods_by_key: Mapping[JobKey, Sequence[Pod]], uids: Mapping[JobKey, str]) -> dict[JobKey, OutcomeFacts]:
    """Return facts by job uid, from pods that belong to the job with the uid on record."""
    facts: dict[JobKey, OutcomeFacts] = {}
    for key in pods_by_key.keys() & uids.keys():
        pod = pods.primary_pod(pod for pod in pods_by_key[key] if pods.controller_uid(pod) == uids[key])
        if pod and (known := _of_pod(uids[key], pod, None)):
            facts[key] = known
    return facts


def _of_pod(job_uid: str, pod: Pod, job_deleted: datetime | None) -> OutcomeFacts | None:
    told_by = termination.told_by([pod], job_deleted)
    if pods.has_ended(pod):
        return _of_an_end(job_uid, pod, pods.phase(pod) == pods.SUCCEEDED, told_by)
    if pods.phase(pod) not in (pods.PENDING, pods.RUNNING):
        return None  # an unknown phase proves no fact
    if (end := pods.end_of_main(pod)) and end.exit_code is not None and pods.main_ended_for_good(pod):
        return _of_an_end(job_uid, pod, end.exit_code == 0, told_by)
    if pod.metadata.deletion_timestamp is not None:
        return OutcomeFacts(job_uid=job_uid, pod_uid=pod.metadata.uid, told_to_end=True, told_by=told_by)
    return None


def _facts_without_pod(look: JobLook) -> OutcomeFacts | None:
    """Return the only fact from a Job without a pod: its pods were told to end while they ran."""
    is_told = look.cause == POD_TERMINATING and not look.phase.has_ended
    return OutcomeFacts(job_uid=look.uid, told_to_end=True, told_by=look.reason) if is_told else None


def _facts_of_silent_pod(pod: Pod, look: JobLook, job_deleted: datetime | None) -> OutcomeFacts | None:
    """Return the facts about a complete Job whose pod does not show its main container's end.

    None: the pod was not told to end. The Job proves the exit code 0. Without these facts the task's row would decide
    whether the program was told before its end: a row without a request would turn half a crawl into a success
    (docs/decisions/0006, rule 4).
    """
    told_to_end = termination.pod_told_to_end(pod)
    if told_to_end is False or look.stop_asked is False:
        return None
    return OutcomeFacts(
        job_uid=look.uid,
        pod_uid=pod.metadata.uid,
        succeeded=True,
        told_to_end=told_to_end,
        told_by=termination.told_by([pod], job_deleted),
        exit_code=look.exit_code,
        ended_at=look.ended_at,
    )


def _of_an_end(job_uid: str, pod: Pod, succeeded: bool, told_by: str | None) -> OutcomeFacts | None:
    end, code = pods.end_of_main(pod), pods.exit_code(pod)
    if succeeded and code != 0:
        return None  # without its main container's exit code 0, success is unproved
    told_to_end = termination.pod_told_to_end(pod)
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
