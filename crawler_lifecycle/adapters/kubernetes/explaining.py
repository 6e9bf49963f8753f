"""Where does a job stand, once its pods are known, and the events that say more? Rules as in docs/decisions/0014."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from crawler_lifecycle.adapters.kubernetes import failure, leaving, pods, telling, waiting
from crawler_lifecycle.adapters.kubernetes.leaving import NO_STATUS
from crawler_lifecycle.adapters.kubernetes.objects import Condition, Event, Job, Pod
from crawler_lifecycle.adapters.kubernetes.status import Key, look_of, of_job, true_conditions
from crawler_lifecycle.adapters.kubernetes.waiting import Wait
from crawler_lifecycle.domain.looks import JobLook, JobPhase
from crawler_lifecycle.domain.reasons import BACKOFF, FINISHING, POD_TERMINATING

SIDECAR_HANGING, NODE_UNREACHABLE = "sidecar_hanging", "node_unreachable"


@dataclass(frozen=True, slots=True)
class Clock:
    now: datetime
    patience: timedelta  # with what gets nowhere
    late: datetime  # what should have ended before that is overdue


def with_pods(key: Key, job: Job, found: Sequence[Pod], clock: Clock) -> JobLook:
    """What `status.of_job` tells, and what only its pods know."""
    look = _with_pods(key, job, found, clock)
    if look.gone or look.due_at is not None:
        return look
    due_at = leaving.since_its_job(job, leaving.due_at_of(found))
    return replace(look, due_at=due_at) if due_at else look


def _with_pods(key: Key, job: Job, found: Sequence[Pod], clock: Clock) -> JobLook:
    pod, known = pods.the_one_that_counts(found), of_job(key, job)
    if known is not None and known.phase is JobPhase.ENDING:
        is_held = known.due_at is not None and known.due_at < clock.late
        return leaving.held(known, job, found) if is_held else leaving.leaving(known, job, found)
    if known is not None:
        return _explained(known, job, pod, found)
    if pod is None:
        return _without_pod(key, job)
    phase = pods.phase(pod)
    if phase == pods.PENDING:
        return _of_pending(key, job, pod, clock)
    if phase in IN_PHASE:
        return look_of(key, job, JobPhase.RUNNING, IN_PHASE[phase](pod), pod)
    return leaving.unclear(key, job.metadata.name, f"its pod is in phase {phase}", job.metadata.uid)


def _explained(look: JobLook, job: Job, pod: Pod | None, found: Sequence[Pod]) -> JobLook:
    if look.phase is JobPhase.FAILED:
        return _failed_because(look, job, pod, found)
    if look.phase is JobPhase.SUCCEEDED:
        deleted = job.metadata.deletion_timestamp
        told = telling.was_told(found, deleted)
        return replace(look, stop_asked=told, reason=telling.by_whom(found, deleted) if told else None)
    return replace(look, reason=telling.by_whom(found)) if look.cause == POD_TERMINATING else look


def _without_pod(key: Key, job: Job) -> JobLook:
    if leaving.some((job.status or NO_STATUS).active):
        problem = "its pod is not listed, although the Job counts it"
        return leaving.unclear(key, job.metadata.name, problem, job.metadata.uid)
    return look_of(key, job, JobPhase.WAITING, waiting.POD_NOT_CREATED)


def _failed_because(look: JobLook, job: Job, pod: Pod | None, found: Sequence[Pod]) -> JobLook:
    """That it failed, the Job says; why, its pod; and if somebody told it to end, either."""
    failed = true_conditions(job.status or NO_STATUS).get("Failed")
    look = replace(look, pods_deleted=_is_by_deletion(job, failed, found))
    if pod is None:
        return look
    gone = look.gone and all(pods.has_ended(each) for each in found)
    return replace(
        look,
        reason=failure.reason(failed, pod),
        message=failure.message(failed, pod),
        exit_code=pods.exit_code(pod),
        started_at=pods.started_at(pod) or look.started_at,
        gone=gone,
        removable=look.removable and gone,
    )


def _is_by_deletion(job: Job, failed: Condition | None, found: Sequence[Pod]) -> bool:
    remembers = job.spec is not None and job.spec.pod_failure_policy is not None
    return failure.is_by_deletion(failed, found, remembers=remembers)


def _of_pending(key: Key, job: Job, pod: Pod, clock: Clock) -> JobLook:
    if not pods.is_true(pod, "PodScheduled"):
        return _waits(key, job, waiting.for_a_node(pod))
    wait = waiting.for_containers(pod)
    if waiting.is_hopeless(wait, pod, clock.now, clock.patience):
        look = look_of(key, job, JobPhase.FAILED, pod=pod)
        return replace(look, reason=wait.cause, message=wait.message)  # a limit of our own: its pod is still there
    return _waits(key, job, wait)


def _what_ails(pod: Pod) -> str | None:
    main = pods.main_container(pod)
    end, wait = pods.state(main).terminated, pods.state(main).waiting
    if end is not None and end.exit_code == 0:
        return SIDECAR_HANGING
    if wait is not None and wait.reason == "CrashLoopBackOff":
        return waiting.CRASH_LOOP
    return NODE_UNREACHABLE if pods.is_out_of_sight(pod) else None


IN_PHASE: dict[str | None, Callable[[Pod], str | None]] = {
    pods.RUNNING: _what_ails,
    pods.SUCCEEDED: lambda _pod: FINISHING,  # the Job has not noticed yet
    pods.FAILED: lambda _pod: BACKOFF,
}


def asks_events_of(look: JobLook, job: Job, pod: Pod | None) -> str | None:
    """The uid of the object whose events may say more (rules 14 and 16)."""
    if look.phase is not JobPhase.WAITING:
        return None
    if look.cause == waiting.POD_NOT_CREATED:
        return job.metadata.uid
    return pod.metadata.uid if pod and look.cause == waiting.CONTAINER_CREATING else None


def with_events(look: JobLook, events: Sequence[Event]) -> JobLook:
    if look.cause == waiting.POD_NOT_CREATED:
        wait = waiting.for_a_pod(events)
    else:
        wait = waiting.explained(Wait(look.cause or "", look.message), events)
    return replace(look, cause=wait.cause, message=wait.message)


def _waits(key: Key, job: Job, wait: Wait) -> JobLook:
    return replace(look_of(key, job, JobPhase.WAITING, wait.cause), message=wait.message)
