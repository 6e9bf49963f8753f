"""Looks at Jobs in deletion: do pods still live, is the Job overdue, and which remains are there."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from crawler_lifecycle.adapters.kubernetes.objects import NO_JOB_STATUS, Job, Pod, is_positive
from crawler_lifecycle.adapters.kubernetes.observe import job_status, pods, termination
from crawler_lifecycle.adapters.kubernetes.observe.orphans import look_of_orphans
from crawler_lifecycle.domain.looks import JobLook, Pods, Presence
from crawler_lifecycle.domain.reasons import FINISHING, ORPHAN_PODS, POD_OVERDUE, POD_TERMINATING


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
