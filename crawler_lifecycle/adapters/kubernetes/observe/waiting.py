"""Why a job waits: one word that stays the same while the cause does, and the cluster's own message."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from crawler_lifecycle.adapters.kubernetes.objects import ContainerStatus, Event, Pod, Waiting
from crawler_lifecycle.adapters.kubernetes.observe import pods
from crawler_lifecycle.adapters.kubernetes.observe.words import word
from crawler_lifecycle.contract.outcome_facts import LONGEST_MESSAGE
from crawler_lifecycle.domain.reasons import (
    CONTAINER_CONFIG,
    IMAGE_PULL,
    NOT_CONSIDERED,
    POD_CREATE_REJECTED,
    POD_NOT_CREATED,
    POD_SANDBOX,
    QUOTA,
    VOLUME,
)

NOT_SYNCED = "not_synced"
SCHEDULED = "scheduled"
CANNOT_START = "cannot_start"
CRASH_LOOP = "crash_loop"
INVALID_IMAGE_NAME = "invalid_image_name"
BY_WAITING_REASON = {
    # the kubelet alternates between trying and pausing: "since when" must not begin anew with every change
    "ErrImagePull": IMAGE_PULL,
    "ImagePullBackOff": IMAGE_PULL,
    "InvalidImageName": IMAGE_PULL,
    "ErrImageNeverPull": IMAGE_PULL,
    "ImageInspectError": IMAGE_PULL,
    "RegistryUnavailable": IMAGE_PULL,
    "SignatureValidationFailed": IMAGE_PULL,
    "CreateContainerConfigError": CONTAINER_CONFIG,
    "CreateContainerError": CANNOT_START,
    "RunContainerError": CANNOT_START,
    "CrashLoopBackOff": CRASH_LOOP,
}
# the cluster retries for ever; a person has to mend the cause
HOPELESS = (IMAGE_PULL, CONTAINER_CONFIG, CANNOT_START, CRASH_LOOP)
QUOTA_WORDS = ("exceeded quota", "status unknown for quota", "insufficient quota", "resourcequotas")
SAYS_NOTHING = ("ContainerCreating", "PodInitializing")
BY_EVENT = {
    "FailedMount": VOLUME,
    "FailedAttachVolume": VOLUME,
    "FailedCreatePodSandBox": POD_SANDBOX,
    "FailedCreatePodSandbox": POD_SANDBOX,
}


@dataclass(frozen=True, slots=True)
class Wait:
    cause: str
    message: str | None = None


def for_a_pod(events: Sequence[Event]) -> Wait:
    """Apply rule 14: the controller made no pod, and only an event says why."""
    failed = _latest(events, ("FailedCreate",))
    if failed is None:
        return Wait(POD_NOT_CREATED)
    said = (failed.message or "").lower()
    cause = QUOTA if any(words in said for words in QUOTA_WORDS) else POD_CREATE_REJECTED
    return Wait(cause, failed.message)


def for_a_node(pod: Pod) -> Wait:
    """Apply rule 15."""
    scheduled = pods.condition(pod, "PodScheduled")
    if scheduled is None or not scheduled.reason:
        return Wait(NOT_CONSIDERED)
    return Wait(word(scheduled.reason, NOT_CONSIDERED), scheduled.message)


def for_containers(pod: Pod) -> Wait:
    """Apply rule 16: init containers first, then the container with the clearest reason."""
    for several in (pods.init_containers(pod), pods.containers(pod)):
        waits = [(status, wait) for status in several if (wait := pods.state(status).waiting) and wait.reason]
        if waits:
            _, wait = min(waits, key=_rank)
            return Wait(BY_WAITING_REASON.get(wait.reason or "") or word(wait.reason, NOT_CONSIDERED), wait.message)
    return Wait(SCHEDULED)


def explained(wait: Wait, events: Sequence[Event]) -> Wait:
    """Return the cause from events: only events say why containers are not created."""
    event = _latest(events, tuple(BY_EVENT))
    return Wait(BY_EVENT[event.reason or ""], event.message) if event else wait


def is_hopeless(wait: Wait, pod: Pod, now: datetime, patience: timedelta) -> bool:
    """Return whether the pod made no progress for too long. `now` is the API server's time."""
    since = pods.last_progress(pod)
    return wait.cause in HOPELESS and since is not None and now - since > patience


def of_an_invalid_image(pod: Pod) -> Wait | None:
    """Return the wait for an invalid image name; None if only a container beside the main container has such a name.

    The kubelet does not retry an invalid name.
    """
    needed = {pods.main_name(pod), *(status.name for status in pods.init_containers(pod))}
    for status in (*pods.init_containers(pod), *pods.containers(pod)):
        wait = pods.state(status).waiting
        if wait and wait.reason == "InvalidImageName" and status.name in needed:
            return Wait(INVALID_IMAGE_NAME, wait.message)
    return None


def cut(message: str | None) -> str | None:
    """Shorten a message: a scheduler may write a sentence for every node, and thousands of tasks wait at once."""
    return message[:LONGEST_MESSAGE] if message else None


def _rank(waiting: tuple[ContainerStatus, Waiting]) -> tuple[bool, bool, str]:
    status, wait = waiting
    hopeless = BY_WAITING_REASON.get(wait.reason or "") in HOPELESS
    return not hopeless, wait.reason in SAYS_NOTHING, status.name or ""


def _latest(events: Sequence[Event], reasons: tuple[str, ...]) -> Event | None:
    matching = [event for event in events if event.reason in reasons]
    return max(matching, key=lambda event: (event.seen_at or pods.LONG_AGO, event.metadata.name), default=None)
