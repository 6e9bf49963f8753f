"""Why a job waits, by its pod and events: a cause of ours, and the cluster's own message.

A cause stays the same while the obstacle stays, since the database records since when a cause holds.
docs/decisions/0014 numbers the rules.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from crawler_lifecycle.clusters.kubernetes.objects import (
    NO_JOB_STATUS,
    ClusterEvent,
    ContainerStatus,
    ContainerWaiting,
    Job,
    Pod,
)
from crawler_lifecycle.clusters.kubernetes.observe import pods
from crawler_lifecycle.clusters.kubernetes.observe.failure import word
from crawler_lifecycle.model import reasons
from crawler_lifecycle.model.looks import LONGEST_MESSAGE

CAUSE_BY_WAITING_REASON = {  # by the reason of a waiting container
    # the kubelet alternates between trying (ErrImagePull) and pausing (ImagePullBackOff): the cause must stay the same
    "ErrImagePull": reasons.IMAGE_PULL,
    "ImagePullBackOff": reasons.IMAGE_PULL,
    "InvalidImageName": reasons.IMAGE_PULL,
    "ErrImageNeverPull": reasons.IMAGE_PULL,
    "ImageInspectError": reasons.IMAGE_PULL,
    "RegistryUnavailable": reasons.IMAGE_PULL,
    "SignatureValidationFailed": reasons.IMAGE_PULL,
    "CreateContainerConfigError": reasons.CONTAINER_CONFIG,
    "CreateContainerError": reasons.CANNOT_START,
    "RunContainerError": reasons.CANNOT_START,
    "CrashLoopBackOff": reasons.CRASH_LOOP,
}
# the cluster retries indefinitely, and mostly only a person can remove the obstacle: the task is given up in the end
HOPELESS_CAUSES = (reasons.IMAGE_PULL, reasons.CONTAINER_CONFIG, reasons.CANNOT_START, reasons.CRASH_LOOP)
FAILED_CREATE = "FailedCreate"  # an event of the Job controller: it could not create a pod
QUOTA_WORDS = ("exceeded quota", "status unknown for quota", "insufficient quota", "resourcequotas")  # in messages
EMPTY_REASONS = ("ContainerCreating", "PodInitializing")  # waiting containers give these reasons without any obstacle
CAUSE_BY_EVENT_REASON = {
    "FailedMount": reasons.VOLUME,
    "FailedMapVolume": reasons.VOLUME,
    "FailedAttachVolume": reasons.VOLUME,
    "FailedPrepareDynamicResources": reasons.RESOURCE_CLAIM,
    "NetworkNotReady": reasons.POD_SANDBOX,
    "FailedCreatePodSandBox": reasons.POD_SANDBOX,
    "FailedCreatePodSandbox": reasons.POD_SANDBOX,
}
# The Job controller tries again every minute, and the cluster records at least every fifth of its failures. A failure
# longer ago is over, or the controller is away: either proves no obstacle now.
LATELY = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a job waits."""

    cause: str
    message: str | None = None


def why_no_pod(events: Sequence[ClusterEvent], now: datetime) -> Wait:
    """Return why a Job has no pod (rule 14): only an event of the Job controller shows the cause. `now`: see `Timing`.

    A rejection has to be of LATELY: the task may be given up for rejections that continue, not for one that is over.
    """
    failure = _latest_event(events, (FAILED_CREATE,))
    if failure is not None and _is_about_quota(failure):
        return Wait(reasons.QUOTA, failure.message)
    if failure is None or not _is_since(now - LATELY, failure):
        return Wait(reasons.POD_NOT_CREATED)
    return Wait(reasons.POD_CREATE_REJECTED, failure.message)


def is_rejected_since(begin: datetime, job: Job, events: Sequence[ClusterEvent]) -> bool:
    """Return whether the Job and its events show nothing but rejections since `begin`: no new start, and no quota.

    A quota is checked last: where a quota holds back a pod, whatever rejects pods let the pod pass.
    """
    started_at = (job.status or NO_JOB_STATUS).start_time
    failures = (event for event in events if event.reason == FAILED_CREATE and _is_since(begin, event))
    return started_at is not None and started_at < begin and not any(_is_about_quota(event) for event in failures)


def _is_about_quota(failure: ClusterEvent) -> bool:
    message = (failure.message or "").lower()
    return any(words in message for words in QUOTA_WORDS)


def _is_since(begin: datetime, event: ClusterEvent) -> bool:
    """Return whether the event happened after `begin`; an event without a time counts as new."""
    return event.seen_at is None or event.seen_at >= begin


def why_no_node(pod: Pod) -> Wait:
    """Return why a pod has no node (rule 15): the scheduler's reason, if the scheduler has considered the pod.

    `word` turns a reason such as `Unschedulable` into the notation of our causes, `unschedulable`.
    """
    scheduled = pods.condition(pod, "PodScheduled")
    if scheduled is None or not scheduled.reason:
        return Wait(reasons.NOT_CONSIDERED)
    return Wait(word(scheduled.reason, reasons.NOT_CONSIDERED), scheduled.message)


def why_no_containers(pod: Pod) -> Wait:
    """Return why a pod's containers do not run (rule 16). Init containers go first: they hold back the others."""
    for containers in (pods.init_containers(pod), pods.containers(pod)):
        waiting = [(status, state) for status in containers if (state := pods.state(status).waiting) and state.reason]
        if waiting:
            _, state = min(waiting, key=_rank_of_reason)
            cause = CAUSE_BY_WAITING_REASON.get(state.reason or "") or word(state.reason, reasons.NOT_CONSIDERED)
            return Wait(cause, state.message)
    return Wait(reasons.SCHEDULED)


def _rank_of_reason(waiting: tuple[ContainerStatus, ContainerWaiting]) -> tuple[bool, bool, str]:
    """Return a sort key: a hopeless reason first, a reason without an obstacle last."""
    status, state = waiting
    is_hopeless = CAUSE_BY_WAITING_REASON.get(state.reason or "") in HOPELESS_CAUSES
    return not is_hopeless, state.reason in EMPTY_REASONS, status.name or ""


def explain_by_events(wait: Wait, events: Sequence[ClusterEvent]) -> Wait:
    """Return why containers are not created, which only the pod's events show; without such an event return `wait`."""
    event = _latest_event(events, tuple(CAUSE_BY_EVENT_REASON))
    return Wait(CAUSE_BY_EVENT_REASON[event.reason or ""], event.message) if event else wait


def is_hopeless(wait: Wait, pod: Pod, begin: datetime) -> bool:
    """Return whether the cause is hopeless and the pod shows no progress since `begin`."""
    since = pods.last_progress(pod)
    return wait.cause in HOPELESS_CAUSES and since is not None and since < begin


def invalid_image(pod: Pod) -> Wait | None:
    """Return the wait of the main or an init container for an invalid image name; None without such a container.

    The kubelet does not retry an invalid name, so the task fails without the patience that a hopeless cause gets. A
    sidecar without an image does not hold back the main container.
    """
    needed = {pods.main_name(pod), *(status.name for status in pods.init_containers(pod))}
    for status in (*pods.init_containers(pod), *pods.containers(pod)):
        wait = pods.state(status).waiting
        if wait and wait.reason == "InvalidImageName" and status.name in needed:
            return Wait(reasons.INVALID_IMAGE_NAME, wait.message)
    return None


def shorten(message: str | None) -> str | None:
    """Shorten a message: a scheduler may write a sentence for every node, and thousands of tasks wait at once."""
    return message[:LONGEST_MESSAGE] if message else None


def _latest_event(events: Sequence[ClusterEvent], event_reasons: tuple[str, ...]) -> ClusterEvent | None:
    """Return the latest event with any of these reasons; None without such an event."""
    matching = [event for event in events if event.reason in event_reasons]
    return max(matching, key=lambda event: (event.seen_at or pods.LONG_AGO, event.metadata.name), default=None)
