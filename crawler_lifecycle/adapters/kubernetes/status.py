"""Where does a job stand? Objects become a JobLook here; which rule does what is in docs/decisions/0014."""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from crawler_lifecycle.adapters.kubernetes import failure, leaving, pods, telling, waiting
from crawler_lifecycle.adapters.kubernetes.leaving import NO_STATUS
from crawler_lifecycle.adapters.kubernetes.objects import Condition, Event, Job, JobStatus, Pod
from crawler_lifecycle.adapters.kubernetes.waiting import Wait
from crawler_lifecycle.domain.looks import JobLook, JobPhase
from crawler_lifecycle.domain.reasons import (
    BACKOFF,
    FAILING,
    FINISHING,
    POD_TERMINATING,
    SUSPENDED,
)

SLACK = timedelta(minutes=1)  # two clocks, each of which cuts its seconds
SUSPENDING, SIDECAR_HANGING, NODE_UNREACHABLE = "suspending", "sidecar_hanging", "node_unreachable"

PODS_SAY_MORE = (POD_TERMINATING, FAILING)  # whether they will ever be gone; a suspended Job goes on after them

Key = leaving.Key
Stage = tuple[JobPhase, str | None]


def of_job(key: Key, job: Job) -> JobLook | None:
    """What the Job alone tells; None: only its pod knows (rules 12 to 21). A failure has its first reason only, and of
    a success only a pod knows whether it was told to end."""
    status = job.status or NO_STATUS
    true = _true_conditions(status)
    if complete := true.get("Complete"):
        return _succeeded(key, job, complete)
    if failed := true.get("Failed"):
        return _failed(key, job, failed)
    if deleted := job.metadata.deletion_timestamp:
        told = POD_TERMINATING if leaving.some(status.terminating) else None
        return replace(_look(key, job, JobPhase.ENDING, told, stop_asked=True), due_at=deleted + leaving.grace_of(job))
    stage = _by_conditions(job, status, true) or _by_counters(status)
    return _look(key, job, *stage) if stage else None


def _by_conditions(job: Job, status: JobStatus, true: Container[str]) -> Stage | None:
    """Rules 7 to 10."""
    if "FailureTarget" in true:
        return JobPhase.RUNNING, FAILING
    if "SuccessCriteriaMet" in true:
        return JobPhase.RUNNING, FINISHING
    if "Suspended" in true or (job.spec is not None and job.spec.suspend):
        has_pods = leaving.some(status.active) or leaving.some(status.terminating)
        return (JobPhase.RUNNING, SUSPENDING) if has_pods else (JobPhase.WAITING, SUSPENDED)
    return (JobPhase.WAITING, waiting.NOT_SYNCED) if status.start_time is None else None


def _by_counters(status: JobStatus) -> Stage | None:
    """Rules 11 to 13, and 20 where no pod has to be asked: one that is Ready runs."""
    if leaving.some(status.active):
        return (JobPhase.RUNNING, None) if leaving.some(status.ready) else None
    if leaving.some(status.terminating):
        return JobPhase.RUNNING, POD_TERMINATING
    if leaving.some(status.succeeded):
        return JobPhase.RUNNING, FINISHING
    return (JobPhase.RUNNING, BACKOFF) if leaving.some(status.failed) else None


def needs_its_pods(look: JobLook | None, job: Job) -> bool:
    """Of a Job that is being deleted, only to know whether they had ended by then."""
    if look is None or look.phase.has_ended:
        return True
    return look.phase is JobPhase.ENDING and look.cause is None and leaving.some((job.status or NO_STATUS).active)


@dataclass(frozen=True, slots=True)
class Clock:
    now: datetime
    patience: timedelta  # with what gets nowhere
    late: datetime  # what should have ended before that is overdue


def with_pods(key: Key, job: Job, found: Sequence[Pod], clock: Clock) -> JobLook:
    """The same once its pods are known."""
    look = _with_pods(key, job, found, clock)
    if look.gone or look.due_at is not None:
        return look
    due_at = leaving.due_at_of(found)
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
        return _look(key, job, JobPhase.RUNNING, IN_PHASE[phase](pod), pod)
    return leaving.unclear(key, job.metadata.name, f"its pod is in phase {phase}", job.metadata.uid)


def _explained(look: JobLook, job: Job, pod: Pod | None, found: Sequence[Pod]) -> JobLook:
    if look.phase is JobPhase.FAILED:
        return _failed_because(look, job, pod, found)
    if look.phase is JobPhase.SUCCEEDED:
        deleted = job.metadata.deletion_timestamp
        told = telling.was_told(found, deleted)
        return replace(look, stop_asked=told, reason=telling.by_whom(found, deleted) if told else None)
    return replace(look, reason=telling.by_whom(found)) if look.cause == POD_TERMINATING else look


def may_be_overdue(look: JobLook | None) -> bool:
    """Only its pods tell."""
    return look is not None and look.phase is JobPhase.RUNNING and look.cause in PODS_SAY_MORE


def tells_enough(look: JobLook) -> bool:
    """Without its pods, if those cannot be read."""
    return look.phase is JobPhase.ENDING or look.cause in PODS_SAY_MORE


def _without_pod(key: Key, job: Job) -> JobLook:
    if leaving.some((job.status or NO_STATUS).active):
        problem = "its pod is not listed, although the Job counts it"
        return leaving.unclear(key, job.metadata.name, problem, job.metadata.uid)
    return _look(key, job, JobPhase.WAITING, waiting.POD_NOT_CREATED)


def _failed_because(look: JobLook, job: Job, pod: Pod | None, found: Sequence[Pod]) -> JobLook:
    """That it failed, the Job says; why, its pod; and if somebody told it to end, either."""
    failed = _true_conditions(job.status or NO_STATUS).get("Failed")
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


def _true_conditions(status: JobStatus) -> dict[str, Condition]:
    """By type; of several of one type, which only nonsense has, the same in whatever order they come."""
    found = [each for each in status.conditions or () if each.is_true]
    if len(found) > 1:
        found.sort(key=repr)
    return {each.type or "": each for each in found}


def _of_pending(key: Key, job: Job, pod: Pod, clock: Clock) -> JobLook:
    if not pods.is_true(pod, "PodScheduled"):
        return _waits(key, job, waiting.for_a_node(pod))
    wait = waiting.for_containers(pod)
    if waiting.is_hopeless(wait, pod, clock.now, clock.patience):
        look = _look(key, job, JobPhase.FAILED, pod=pod)
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


def _succeeded(key: Key, job: Job, complete: Condition) -> JobLook:
    """All containers of a pod exited with 0, or it would not be complete. The controller writes when it saw that, not
    when it was: so the Job alone does not tell whether anybody told it to end before."""
    at = (job.status or NO_STATUS).completion_time or complete.last_transition_time
    return replace(_ended(key, job, JobPhase.SUCCEEDED, at, exit_code=0), stop_asked=None)


def _failed(key: Key, job: Job, failed: Condition) -> JobLook:
    look = _ended(key, job, JobPhase.FAILED, failed.last_transition_time)
    return replace(
        look, reason=failure.reason(failed, None), message=failed.message, exit_code=failure.exit_code(failed)
    )


def _ended(key: Key, job: Job, phase: JobPhase, at: datetime | None, exit_code: int | None = None) -> JobLook:
    status, deleted = job.status or NO_STATUS, job.metadata.deletion_timestamp
    gone = not leaving.some(status.active) and not leaving.some(status.terminating)
    return JobLook(
        *key,
        job.metadata.uid,
        job.metadata.name,
        phase,
        exit_code=exit_code,
        started_at=status.start_time,
        ended_at=at,
        # what was deleted long after its end, by its time to live or by a person, was not stopped
        stop_asked=deleted is not None and (at is None or deleted - at <= SLACK),
        gone=gone,
        removable=gone and deleted is None,
    )


def _look(
    key: Key,
    job: Job,
    phase: JobPhase,
    cause: str | None = None,
    pod: Pod | None = None,
    *,
    stop_asked: bool = False,
    message: str | None = None,
) -> JobLook:
    begun = (job.status or NO_STATUS).start_time if phase is JobPhase.RUNNING else None
    started = (pods.started_at(pod) if pod else None) or begun
    uid, name = job.metadata.uid, job.metadata.name
    return JobLook(*key, uid, name, phase, cause, message=message, started_at=started, stop_asked=stop_asked)


def _waits(key: Key, job: Job, wait: Wait) -> JobLook:
    return _look(key, job, JobPhase.WAITING, wait.cause, message=wait.message)
