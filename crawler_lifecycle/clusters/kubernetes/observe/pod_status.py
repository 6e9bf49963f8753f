"""Complete a job's look by its pods and events. docs/decisions/0014 numbers the rules.

`job_status.look_of_job` gives the look by the Job alone. `look_with_pods` decides the looks that the Job leaves open,
and adds the details that only pods show. `look_with_events` adds why a job waits. Jobs in deletion, Jobs whose deletion
does not end, and orphan pods have functions of their own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from crawler_lifecycle.clusters.kubernetes.objects import NO_JOB_STATUS, ClusterEvent, Job, Pod, is_positive
from crawler_lifecycle.clusters.kubernetes.observe import failure, job_status, pods, waiting
from crawler_lifecycle.clusters.kubernetes.observe.job_status import build_look, look_of_job, true_conditions
from crawler_lifecycle.clusters.kubernetes.observe.outcome_facts import facts_of
from crawler_lifecycle.clusters.kubernetes.observe.waiting import Wait
from crawler_lifecycle.model import reasons
from crawler_lifecycle.model.looks import EndRequest, JobKey, JobLook, JobPhase, Pods, Presence

CAUSE_BY_PHASE = {  # cause while a pod has ended in the phase, and the Job has not counted the pod's end yet
    pods.SUCCEEDED: reasons.FINISHING,
    pods.FAILED: reasons.BACKOFF,
}


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
    living = JobLook(
        *key, job_uid, name, JobPhase.ENDING, reasons.ORPHAN_PODS, presence=Presence.ABSENT, end_request=request
    )
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
    was_told = failure.were_told_to_end([pod])
    author = None if was_told is False else failure.author_of_request([pod])
    return replace(ended, phase=JobPhase.SUCCEEDED, end_request=EndRequest.by(was_told), reason=author)


def mark_overdue(look: JobLook, now: datetime, patience: timedelta) -> JobLook:
    """Mark a job as overdue if its end was due more than `patience` ago: its node is dead, or a finalizer holds it."""
    if look.gone or look.due_at is None or now - look.due_at <= patience:
        return look
    return replace(look, cause=reasons.POD_OVERDUE)


def look_of_deleted_job(look: JobLook, own_pods: Sequence[Pod]) -> JobLook:
    """Return the look with cause POD_TERMINATING if the deletion met living pods, FINISHING if all had ended before.

    The cause has to be recorded now, since the pods may be gone before the deletion completes. If a pod is in an
    unknown phase, or the pods do not show which came first, the look stays without a cause.
    """
    if any(pods.lives(pod) for pod in own_pods):
        return replace(look, cause=reasons.POD_TERMINATING)
    if not all(pods.has_ended(pod) for pod in own_pods):
        return look
    was_told = failure.were_told_to_end(own_pods)
    if was_told is None:
        return look
    return replace(look, cause=reasons.POD_TERMINATING if was_told else reasons.FINISHING)


def look_of_held_job(look: JobLook, job: Job, own_pods: Sequence[Pod]) -> JobLook:
    """Return the look at a Job whose deletion should have ended long ago.

    If pods may still run, the cause is POD_TERMINATING after a request to end, and ORPHAN_PODS without a request. If
    only the Job's status counts pods, the look stays unchanged. Otherwise a finalizer holds the Job: the presence is
    HELD, and the look is as of a Job that is absent.
    """
    may_run = [pod for pod in own_pods if not pods.has_ended(pod)]
    if may_run:
        due_at = not_before_creation(job, pods.due_at(may_run))
        return replace(look, due_at=due_at, cause=reasons.POD_TERMINATING if due_at else reasons.ORPHAN_PODS)
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


@dataclass(frozen=True, slots=True)
class Timing:
    """The look's time by the API server's clock, and how long a job may stay in a state."""

    now: datetime
    no_progress: timedelta  # how long a job may make no progress before its start
    overdue_before: datetime  # jobs due to end before this time are overdue
    sidecars: timedelta  # how long sidecars may run on after the main container's end


def look_with_pods(key: JobKey, job: Job, own_pods: Sequence[Pod], timing: Timing) -> JobLook:
    """Return the look by the Job and its pods, with outcome facts and the time when the job should end."""
    look = _look_by_job_or_pod(key, job, own_pods, timing)
    if look.phase is not JobPhase.UNCLEAR:
        look = replace(look, facts=facts_of(look, job, own_pods))
    if look.gone or look.due_at is not None:
        return look
    # a due time before the Job's creation comes from a wrong clock
    due_at = not_before_creation(job, pods.due_at(own_pods))
    return replace(look, due_at=due_at) if due_at else look


def _look_by_job_or_pod(key: JobKey, job: Job, own_pods: Sequence[Pod], timing: Timing) -> JobLook:
    """Return the look by the Job, with details from the pods; by the pods if the Job decides nothing."""
    look = look_of_job(key, job)
    if look is None:
        pod = pods.primary_pod(own_pods)
        return _look_by_pod(key, job, pod, timing) if pod else _look_without_pod(key, job)
    if look.phase is JobPhase.ENDING:
        return _complete_ending(look, job, own_pods, timing)
    if look.phase is JobPhase.FAILED:
        return _complete_failure(look, job, own_pods)
    if look.phase is JobPhase.SUCCEEDED:
        return _complete_success(look, job, own_pods)
    if look.cause == reasons.POD_TERMINATING:
        # only the pod names the author of the request, and may be gone at the end: the task's row keeps the author
        return replace(look, reason=failure.author_of_request(own_pods))
    return look


def _complete_ending(look: JobLook, job: Job, own_pods: Sequence[Pod], timing: Timing) -> JobLook:
    """Complete the look at a deleted Job by its pods.

    A Job that should have gone long ago is held, by pods that may still run or by a finalizer. Until then the pods show
    whether the deletion met a living program.
    """
    is_held = look.due_at is not None and look.due_at < timing.overdue_before
    if is_held:
        return look_of_held_job(look, job, own_pods)
    return look_of_deleted_job(look, own_pods)


def _look_by_pod(key: JobKey, job: Job, pod: Pod, timing: Timing) -> JobLook:
    """Return the look at a job whose Job leaves the decision to the pod (rules 12 to 21)."""
    phase = pods.phase(pod)
    if phase == pods.PENDING and not pods.main_has_begun(pod):
        return _look_by_pending_pod(key, job, pod, timing)
    if phase in (pods.PENDING, pods.RUNNING):
        return _look_by_running_pod(key, job, pod, timing)
    if phase in CAUSE_BY_PHASE:
        return build_look(key, job, JobPhase.RUNNING, CAUSE_BY_PHASE[phase], pod)
    return job_status.unclear_look(key, job.metadata.name, f"its pod is in phase {phase}", job.metadata.uid)


def _look_without_pod(key: JobKey, job: Job) -> JobLook:
    """Return a waiting look without a pod (rule 14); an unclear look if the Job counts a pod that no list shows."""
    if is_positive((job.status or NO_JOB_STATUS).active):
        problem = "its pod is not listed, although the Job counts it"
        return job_status.unclear_look(key, job.metadata.name, problem, job.metadata.uid)
    return build_look(key, job, JobPhase.WAITING, reasons.POD_NOT_CREATED)


def _complete_success(look: JobLook, job: Job, own_pods: Sequence[Pod]) -> JobLook:
    """Complete a success: its pods show whether the program was asked to end before its end, and by whom.

    If no pod shows the order of request and end (`was_told` is None), the end request is UNKNOWN. The look names the
    author also then, since the records may show that the request came first.
    """
    was_told = failure.were_told_to_end(own_pods)
    is_told_or_unknown = was_told is not False
    has_finished_pod = pods.ended_pod(own_pods, pods.SUCCEEDED) is not None
    author = None
    if is_told_or_unknown and has_finished_pod:
        author = failure.author_of_request(own_pods, job.metadata.deletion_timestamp)
    return replace(look, end_request=EndRequest.by(was_told), reason=author)


def _complete_failure(look: JobLook, job: Job, own_pods: Sequence[Pod]) -> JobLook:
    """Complete a failure: the Job proves the failure, the pod its reason, and either may show a request to end."""
    pod = pods.ended_pod(own_pods, pods.FAILED)
    failed = true_conditions(job.status or NO_JOB_STATUS).get("Failed")
    has_failure_policy = job.spec is not None and job.spec.pod_failure_policy is not None
    is_by_deletion = failure.is_by_deletion(failed, own_pods, has_failure_policy=has_failure_policy)
    if look.end_request is EndRequest.NONE and is_by_deletion:
        look = replace(look, end_request=EndRequest.TO_PODS)
    if pod is None:
        # the failure policy names every exit code but those of a deletion: without pods and code, the pods were deleted
        is_unexplained = is_by_deletion and not own_pods and look.exit_code is None
        return replace(look, reason=reasons.DISRUPTED) if is_unexplained else look
    have_ended = all(pods.has_ended(pod) for pod in own_pods)
    return replace(
        look,
        reason=failure.reason(failed, pod),
        message=failure.message(failed, pod),
        exit_code=pods.exit_code(pod),
        started_at=pods.started_at(pod) or look.started_at,
        pods=look.pods if have_ended else Pods.MAY_RUN,
    )


def _look_by_pending_pod(key: JobKey, job: Job, pod: Pod, timing: Timing) -> JobLook:
    """Return a waiting look, with the time to give up if waiting is hopeless; failed for an invalid image name."""
    if not pods.is_true(pod, "PodScheduled"):
        return _waiting_look(key, job, waiting.why_no_node(pod))
    if invalid_image := waiting.invalid_image(pod):
        look = build_look(key, job, JobPhase.FAILED, pod=pod)
        return replace(look, reason=invalid_image.cause, message=waiting.shorten(invalid_image.message))
    wait = waiting.why_no_containers(pod)
    is_hopeless = waiting.is_hopeless(wait, pod, timing.now - timing.no_progress)
    return replace(_waiting_look(key, job, wait), give_up_after=timing.no_progress if is_hopeless else None)


def _waiting_look(key: JobKey, job: Job, wait: Wait) -> JobLook:
    return replace(build_look(key, job, JobPhase.WAITING, wait.cause), message=waiting.shorten(wait.message))


def _look_by_running_pod(key: JobKey, job: Job, pod: Pod, timing: Timing) -> JobLook:
    cause = _trouble_after_start(pod)
    look = build_look(key, job, JobPhase.RUNNING, cause, pod)
    if cause == reasons.SIDECAR_HANGING:
        return replace(look, give_up_after=timing.sidecars if _has_ended_before(pod, timing) else None)
    if cause == reasons.SIDECAR_NOT_STARTED:
        sidecars = ", ".join(f"container {name}: {reason}" for name, reason in pods.waiting_beside_main(pod))
        return replace(look, message=waiting.shorten(sidecars))
    return look


def _has_ended_before(pod: Pod, timing: Timing) -> bool:
    """Return whether the main container ended longer ago than sidecars may run on; True without a date.

    A container that ends again and again, since the cluster restarts it in place, has not.
    """
    end = pods.end_of_main(pod)
    return end is None or end.finished_at is None or timing.now - end.finished_at >= timing.sidecars


def _trouble_after_start(pod: Pod) -> str | None:
    """Return the cause for a pod after its main container's start (rules 17 to 20); None for a healthy pod."""
    state = pods.state(pods.main_container(pod))
    if state.terminated is not None and not pods.main_may_restart(pod):
        return reasons.SIDECAR_HANGING
    if state.waiting is not None and state.waiting.reason == "CrashLoopBackOff":
        return reasons.CRASH_LOOP
    if pods.is_out_of_sight(pod):
        return reasons.NODE_UNREACHABLE
    if pods.phase(pod) == pods.PENDING and pods.waiting_beside_main(pod):
        return reasons.SIDECAR_NOT_STARTED
    return None


def subject_of_events(look: JobLook, job: Job, pod: Pod | None) -> str | None:
    """Return the uid of the object whose events may explain the wait; None if events cannot say more.

    The object is the Job while the Job has no pod, and the pod while its containers are created (rules 14 and 16).
    """
    if look.phase is not JobPhase.WAITING:
        return None
    if look.cause == reasons.POD_NOT_CREATED:
        return job.metadata.uid
    return pod.metadata.uid if pod and look.cause == reasons.CONTAINER_CREATING else None


def look_with_events(look: JobLook, job: Job, events: Sequence[ClusterEvent], timing: Timing) -> JobLook:
    """Return the look with the cause by the events about its `subject_of_events`."""
    if look.cause != reasons.POD_NOT_CREATED:
        wait = waiting.explain_by_events(Wait(look.cause or "", look.message), events)
        return replace(look, cause=wait.cause, message=waiting.shorten(wait.message))
    wait = waiting.why_no_pod(events, timing.now)
    is_rejected = wait.cause == reasons.POD_CREATE_REJECTED
    is_hopeless = is_rejected and waiting.is_rejected_since(timing.now - timing.no_progress, job, events)
    return replace(
        look,
        cause=wait.cause,
        message=waiting.shorten(wait.message),
        give_up_after=timing.no_progress if is_hopeless else None,
    )
