"""Jobs that are being deleted or were: whether they live, should have ended long since, and how they ended."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from crawler_lifecycle.adapters.kubernetes import failure, pods, telling
from crawler_lifecycle.adapters.kubernetes.objects import Job, JobStatus, Pod
from crawler_lifecycle.domain.looks import JobKey, JobLook, JobPhase
from crawler_lifecycle.domain.reasons import FINISHING, ORPHAN_PODS, POD_OVERDUE, POD_TERMINATING

NO_STATUS = JobStatus()
USUAL_GRACE, LONGEST_GRACE = timedelta(seconds=30), 10**9


def if_overdue(look: JobLook, now: datetime, patience: timedelta) -> JobLook:
    """Nobody ends it any more: its node is dead, or something holds it."""
    if look.gone or look.due_at is None or now - look.due_at <= patience:
        return look
    return replace(look, cause=POD_OVERDUE, overdue=True)


def leaving(look: JobLook, found: Sequence[Pod]) -> JobLook:
    """Whether they lived when it was deleted: by the time that it is complete they may be gone.

    One in a phase that we do not know may live, or have ended before: nothing is told by that."""
    if any(pods.lives(pod) for pod in found):
        return replace(look, cause=POD_TERMINATING)
    if not all(pods.has_ended(pod) for pod in found):
        return look
    told = telling.was_told(found)
    return look if told is None else replace(look, cause=POD_TERMINATING if told else FINISHING)


def held(look: JobLook, job: Job, found: Sequence[Pod]) -> JobLook:
    """A Job that should be gone long since: something holds it, or pods do, which perhaps nobody told."""
    if living := [pod for pod in found if not pods.has_ended(pod)]:
        due = since_its_job(job, due_at_of(living))
        return replace(look, due_at=due, cause=POD_TERMINATING if due else ORPHAN_PODS)
    status = job.status or NO_STATUS
    if some(status.active) or some(status.terminating):
        return look
    left = of_orphans((look.task, look.attempt), look.name, found)
    without = unclear((look.task, look.attempt), look.name, "it is being deleted, and nothing of it is left", look.uid)
    return replace(left or replace(without, gone=True, left_behind=True), leaving=True)


def of_orphans(key: JobKey, name: str, found: Sequence[Pod]) -> JobLook | None:
    """A Job that is provably gone, by what pods of it are left; None: nothing is."""
    pod = pods.the_one_that_counts([each for each in found if not pods.has_ended(each)] or found)
    if pod is None:
        return None
    uids = {pods.controller_uid(each) for each in found}
    uid = pods.controller_uid(pod)
    if not uid or len(uids) > 1:
        problem = f"pod {pod.metadata.name} and others do not tell as one whose they are"
        return replace(unclear(key, name, problem), gone=pods.has_ended(pod), left_behind=True)
    asked = pod.metadata.deletion_timestamp is not None
    look = JobLook(*key, uid, name, JobPhase.ENDING, ORPHAN_PODS, stop_asked=asked, left_behind=True)
    if not pods.has_ended(pod):
        return replace(look, started_at=pods.started_at(pod), due_at=due_at_of(found))
    end, code = pods.end_of_main(pod), pods.exit_code(pod)
    ended = replace(
        look,
        cause=None,
        exit_code=code,
        gone=True,
        started_at=pods.started_at(pod),
        ended_at=end.finished_at if end else None,
    )
    if pods.phase(pod) == pods.FAILED:
        why, what = failure.reason(None, pod), failure.message(None, pod)
        return replace(ended, phase=JobPhase.FAILED, reason=why, message=what)
    if code == 0:
        told = telling.was_told([pod])
        by_whom = None if told is False else telling.by_whom([pod])
        return replace(ended, phase=JobPhase.SUCCEEDED, stop_asked=told, reason=by_whom)
    message = f"pod {pod.metadata.name} succeeded, but not its main container"
    return replace(ended, phase=JobPhase.UNCLEAR, message=message)


def due_at_of(found: Sequence[Pod]) -> datetime | None:
    """When the last of its living pods should have ended: a pod's deletion is noted with the time when its grace ends.
    None: one of them was not told to."""
    due = [pod.metadata.deletion_timestamp for pod in found if not pods.has_ended(pod)]
    told = [each for each in due if each]
    return max(told) if told and len(told) == len(due) else None


def since_its_job(job: Job, at: datetime | None) -> datetime | None:
    """Return the time, or when the Job was made if that is later.

    No pod is older than its Job: a time that says so was written by another clock, and its age would be too great."""
    made = job.metadata.creation_timestamp
    return at if at is None or made is None else max(at, made)


def grace_of(job: Job) -> timedelta:
    template = job.spec.template.spec if job.spec and job.spec.template else None
    seconds = template.termination_grace_period_seconds if template else None
    return USUAL_GRACE if seconds is None else timedelta(seconds=min(max(seconds, 0), LONGEST_GRACE))


def unclear(key: JobKey, name: str, message: str, uid: str = "") -> JobLook:
    return JobLook(*key, uid, name, JobPhase.UNCLEAR, message=message)


def some(count: int | None) -> bool:
    return count is not None and count > 0
