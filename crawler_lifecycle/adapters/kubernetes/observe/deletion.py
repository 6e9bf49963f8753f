"""Looks at Jobs during their deletion: whether their pods live, whether the Jobs are overdue, and what remains."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from crawler_lifecycle.adapters.kubernetes.objects import NO_JOB_STATUS, Job, Pod, is_positive
from crawler_lifecycle.adapters.kubernetes.observe import job_status, pods, termination
from crawler_lifecycle.adapters.kubernetes.observe.orphans import look_of_orphans
from crawler_lifecycle.domain.looks import JobLook
from crawler_lifecycle.domain.reasons import FINISHING, ORPHAN_PODS, POD_OVERDUE, POD_TERMINATING


def mark_overdue(look: JobLook, now: datetime, patience: timedelta) -> JobLook:
    """Mark a job as overdue if its end was due too long ago: its node is dead, or a finalizer holds the object."""
    if look.gone or look.due_at is None or now - look.due_at <= patience:
        return look
    return replace(look, cause=POD_OVERDUE, overdue=True)


def look_of_deleted_job(look: JobLook, found: Sequence[Pod]) -> JobLook:
    """Return the look with a cause that says whether pods lived at the Job's deletion.

    Later the pods may be gone, before the deletion completes. Pods in an unknown phase may live, or may have ended before the
    deletion: such pods decide neither way.
    """
    if any(pods.lives(pod) for pod in found):
        return replace(look, cause=POD_TERMINATING)
    if not all(pods.has_ended(pod) for pod in found):
        return look
    told = termination.told_to_end(found)
    return look if told is None else replace(look, cause=POD_TERMINATING if told else FINISHING)


def look_of_held_job(look: JobLook, job: Job, found: Sequence[Pod]) -> JobLook:
    """Return the look at a Job with a long overdue deletion: a finalizer holds the Job, or pods without a request."""
    if living := [pod for pod in found if not pods.has_ended(pod)]:
        due = since_its_job(job, pods.due_at(living))
        return replace(look, due_at=due, cause=POD_TERMINATING if due else ORPHAN_PODS)
    status = job.status or NO_JOB_STATUS
    if is_positive(status.active) or is_positive(status.terminating):
        return look
    left = look_of_orphans((look.task, look.attempt), look.name, found)
    without = job_status.unclear_look(
        (look.task, look.attempt), look.name, "it is being deleted, and nothing of it is left", look.uid
    )
    return replace(left or replace(without, gone=True, left_behind=True), leaving=True)


def since_its_job(job: Job, at: datetime | None) -> datetime | None:
    """Return the later time: `at`, or the Job's creation.

    Pods are younger than their Job: an older time came from a deviating clock and would exaggerate the age.
    """
    made = job.metadata.creation_timestamp
    return at if at is None or made is None else max(at, made)
