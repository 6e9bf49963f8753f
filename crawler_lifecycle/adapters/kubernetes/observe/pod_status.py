"""Look at a job by its pods and events. docs/decisions/0014 numbers the rules."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from crawler_lifecycle.adapters.kubernetes.objects import NO_JOB_STATUS, Condition, Event, Job, Pod, is_positive
from crawler_lifecycle.adapters.kubernetes.observe import deletion, failure, job_status, pods, termination, waiting
from crawler_lifecycle.adapters.kubernetes.observe.job_status import build_look, look_of_job, true_conditions
from crawler_lifecycle.adapters.kubernetes.observe.outcome_facts import facts_of
from crawler_lifecycle.adapters.kubernetes.observe.waiting import Wait
from crawler_lifecycle.domain import reasons
from crawler_lifecycle.domain.looks import EndRequest, JobKey, JobLook, JobPhase, Pods

NODE_UNREACHABLE = "node_unreachable"
CAUSE_OF_ENDED_POD = {  # causes while the Job has not counted the pod's end yet
    pods.SUCCEEDED: reasons.FINISHING,
    pods.FAILED: reasons.BACKOFF,
}
ONCE_ON_RECORD = timedelta()  # for give_up_after: the next look with the same cause ends the task


@dataclass(frozen=True, slots=True)
class Timing:
    """The look's time by the API server's clock, and how long a job may stay in a state."""

    now: datetime
    patience: timedelta  # how long a job may make no progress
    late: datetime  # a job whose end was due before this time is overdue
    with_sidecars: timedelta  # how long sidecars may run on after the main container's end


def look_with_pods(key: JobKey, job: Job, own_pods: Sequence[Pod], timing: Timing) -> JobLook:
    """Return the look of `job_status.look_of_job`, completed by the job's pods."""
    look = _with_pods(key, job, own_pods, timing)
    if look.phase is not JobPhase.UNCLEAR:
        look = replace(look, facts=facts_of(look, job, own_pods))
    if look.gone or look.due_at is not None:
        return look
    due_at = deletion.not_before_creation(job, pods.due_at(own_pods))
    return replace(look, due_at=due_at) if due_at else look


def _with_pods(key: JobKey, job: Job, own_pods: Sequence[Pod], timing: Timing) -> JobLook:
    known = look_of_job(key, job)
    has_failed = known is not None and known.phase is JobPhase.FAILED
    pod = pods.ended_pod(own_pods, pods.FAILED) if has_failed else pods.primary_pod(own_pods)
    if known is not None and known.phase is JobPhase.ENDING:
        is_held = known.due_at is not None and known.due_at < timing.late
        return (
            deletion.look_of_held_job(known, job, own_pods)
            if is_held
            else deletion.look_of_deleted_job(known, own_pods)
        )
    if known is not None:
        return _explained(known, job, pod, own_pods)
    if pod is None:
        return _without_pod(key, job)
    return _by_its_pod(key, job, pod, timing)


def _by_its_pod(key: JobKey, job: Job, pod: Pod, timing: Timing) -> JobLook:
    phase = pods.phase(pod)
    if phase == pods.PENDING and not pods.main_has_begun(pod):
        return _of_pending(key, job, pod, timing)
    if phase in (pods.PENDING, pods.RUNNING):
        return _of_running(key, job, pod, timing)
    if phase in CAUSE_OF_ENDED_POD:
        return build_look(key, job, JobPhase.RUNNING, CAUSE_OF_ENDED_POD[phase], pod)
    return job_status.unclear_look(key, job.metadata.name, f"its pod is in phase {phase}", job.metadata.uid)


def _explained(look: JobLook, job: Job, pod: Pod | None, own_pods: Sequence[Pod]) -> JobLook:
    """Complete the Job's own look: add a failure's reason, or the author who told the pods to end."""
    if look.phase is JobPhase.FAILED:
        return _failed_because(look, job, pod, own_pods)
    if look.phase is JobPhase.SUCCEEDED:
        deleted = job.metadata.deletion_timestamp
        was_told = termination.told_to_end(own_pods)
        may_be_told = was_told is not False and pods.ended_pod(own_pods, pods.SUCCEEDED) is not None
        return replace(
            look,
            end_request=EndRequest.by(was_told),
            reason=termination.told_by(own_pods, deleted) if may_be_told else None,
        )
    return replace(look, reason=termination.told_by(own_pods)) if look.cause == reasons.POD_TERMINATING else look


def _without_pod(key: JobKey, job: Job) -> JobLook:
    if is_positive((job.status or NO_JOB_STATUS).active):
        problem = "its pod is not listed, although the Job counts it"
        return job_status.unclear_look(key, job.metadata.name, problem, job.metadata.uid)
    return build_look(key, job, JobPhase.WAITING, reasons.POD_NOT_CREATED)


def _failed_because(look: JobLook, job: Job, pod: Pod | None, own_pods: Sequence[Pod]) -> JobLook:
    """Complete a failure: the Job proves the failure, the pod its reason, and either may show a request to end."""
    failed = true_conditions(job.status or NO_JOB_STATUS).get("Failed")
    if look.end_request is EndRequest.NONE and _is_by_deletion(job, failed, own_pods):
        look = replace(look, end_request=EndRequest.TO_PODS)
    if pod is None:
        return look
    have_ended = all(pods.has_ended(pod) for pod in own_pods)
    return replace(
        look,
        reason=failure.reason(failed, pod),
        message=failure.message(failed, pod),
        exit_code=pods.exit_code(pod),
        started_at=pods.started_at(pod) or look.started_at,
        pods=look.pods if have_ended else Pods.MAY_RUN,
    )


def _is_by_deletion(job: Job, failed: Condition | None, own_pods: Sequence[Pod]) -> bool:
    remembers = job.spec is not None and job.spec.pod_failure_policy is not None
    return failure.is_by_deletion(failed, own_pods, remembers=remembers)


def _of_pending(key: JobKey, job: Job, pod: Pod, timing: Timing) -> JobLook:
    if not pods.is_true(pod, "PodScheduled"):
        return _waits(key, job, waiting.for_a_node(pod))
    if invalid := waiting.of_an_invalid_image(pod):
        look = build_look(key, job, JobPhase.FAILED, pod=pod)
        return replace(look, reason=invalid.cause, message=waiting.cut(invalid.message))
    wait = waiting.for_containers(pod)
    is_hopeless = waiting.is_hopeless(wait, pod, timing.now, timing.patience)
    return replace(_waits(key, job, wait), give_up_after=ONCE_ON_RECORD if is_hopeless else None)


def _of_running(key: JobKey, job: Job, pod: Pod, timing: Timing) -> JobLook:
    cause = _trouble_of_running(pod)
    look = build_look(key, job, JobPhase.RUNNING, cause, pod)
    if cause == reasons.SIDECAR_HANGING:
        return replace(look, give_up_after=timing.with_sidecars)
    if cause == reasons.SIDECAR_NOT_STARTED:
        beside = ", ".join(f"container {name}: {reason}" for name, reason in pods.waiting_beside_main(pod))
        return replace(look, message=waiting.cut(beside))
    return look


def _trouble_of_running(pod: Pod) -> str | None:
    """Return the cause for a pod after its main container's start (rules 17 to 20); None for a healthy pod."""
    state = pods.state(pods.main_container(pod))
    if state.terminated is not None and pods.main_ended_for_good(pod):
        return reasons.SIDECAR_HANGING
    if state.waiting is not None and state.waiting.reason == "CrashLoopBackOff":
        return waiting.CRASH_LOOP
    if pods.is_out_of_sight(pod):
        return NODE_UNREACHABLE
    return reasons.SIDECAR_NOT_STARTED if pods.phase(pod) == pods.PENDING and pods.waiting_beside_main(pod) else None


def subject_of_events(look: JobLook, job: Job, pod: Pod | None) -> str | None:
    """Return the uid of the object whose events may explain the wait; None if events cannot say more.

    The object is the Job without a pod, or the pod while its containers are created (rules 14 and 16).
    """
    if look.phase is not JobPhase.WAITING:
        return None
    if look.cause == reasons.POD_NOT_CREATED:
        return job.metadata.uid
    return pod.metadata.uid if pod and look.cause == reasons.CONTAINER_CREATING else None


def look_with_events(look: JobLook, job: Job, events: Sequence[Event], timing: Timing) -> JobLook:
    if look.cause != reasons.POD_NOT_CREATED:
        wait = waiting.explained(Wait(look.cause or "", look.message), events)
        return replace(look, cause=wait.cause, message=waiting.cut(wait.message))
    wait = waiting.for_a_pod(events)
    begun = (job.status or NO_JOB_STATUS).start_time
    is_late = begun is not None and timing.now - begun > timing.patience
    is_hopeless = wait.cause == reasons.POD_CREATE_REJECTED and is_late
    return replace(
        look, cause=wait.cause, message=waiting.cut(wait.message), give_up_after=ONCE_ON_RECORD if is_hopeless else None
    )


def _waits(key: JobKey, job: Job, wait: Wait) -> JobLook:
    return replace(build_look(key, job, JobPhase.WAITING, wait.cause), message=waiting.cut(wait.message))
