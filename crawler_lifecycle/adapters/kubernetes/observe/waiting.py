"""Find out why a job waits: a cause, which stays while the obstacle stays, and the cluster's own message.

docs/decisions/0014 numbers the rules.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from crawler_lifecycle.adapters.kubernetes.objects import ContainerStatus, Event, Pod, Waiting
from crawler_lifecycle.adapters.kubernetes.observe import pods
from crawler_lifecycle.adapters.kubernetes.observe.words import word
from crawler_lifecycle.contract.outcome_facts import LONGEST_MESSAGE
from crawler_lifecycle.domain import reasons

NOT_SYNCED = "not_synced"
SCHEDULED = "scheduled"
CANNOT_START = "cannot_start"
CRASH_LOOP = "crash_loop"
INVALID_IMAGE_NAME = "invalid_image_name"
BY_WAITING_REASON = {
    # the kubelet alternates between trying and pausing: "since when" must not begin anew with every change
    "ErrImagePull": reasons.IMAGE_PULL,
    "ImagePullBackOff": reasons.IMAGE_PULL,
    "InvalidImageName": reasons.IMAGE_PULL,
    "ErrImageNeverPull": reasons.IMAGE_PULL,
    "ImageInspectError": reasons.IMAGE_PULL,
    "RegistryUnavailable": reasons.IMAGE_PULL,
    "SignatureValidationFailed": reasons.IMAGE_PULL,
    "CreateContainerConfigError": reasons.CONTAINER_CONFIG,
    "CreateContainerError": CANNOT_START,
    "RunContainerError": CANNOT_START,
    "CrashLoopBackOff": CRASH_LOOP,
}
# the cluster retries for ever; a person has to mend the cause
HOPELESS = (reasons.IMAGE_PULL, reasons.CONTAINER_CONFIG, CANNOT_START, CRASH_LOOP)
QUOTA_WORDS = ("exceeded quota", "status unknown for quota", "insufficient quota", "resourcequotas")
SAYS_NOTHING = ("ContainerCreating", "PodInitializing")
BY_EVENT = {
    "FailedMount": reasons.VOLUME,
    "FailedAttachVolume": reasons.VOLUME,
    "FailedCreatePodSandBox": reasons.POD_SANDBOX,
    "FailedCreatePodSandbox": reasons.POD_SANDBOX,
}


@dataclass(frozen=True, slots=True)
class Wait:
    cause: str
    message: str | None = None


def for_a_pod(events: Sequence[Event]) -> Wait:
    """Return why a Job has no pod (rule 14): only an event of the Job controller tells the cause."""
    failed = _latest(events, ("FailedCreate",))
    if failed is None:
        return Wait(reasons.POD_NOT_CREATED)
    said = (failed.message or "").lower()
    cause = reasons.QUOTA if any(words in said for words in QUOTA_WORDS) else reasons.POD_CREATE_REJECTED
    return Wait(cause, failed.message)


def for_a_node(pod: Pod) -> Wait:
    """Return why a pod has no node (rule 15)."""
    scheduled = pods.condition(pod, "PodScheduled")
    if scheduled is None or not scheduled.reason:
        return Wait(reasons.NOT_CONSIDERED)
    return Wait(word(scheduled.reason, reasons.NOT_CONSIDERED), scheduled.message)


def for_containers(pod: Pod) -> Wait:
    """Return why a pod's containers do not run (rule 16). Init containers go first: they hold back the others."""
    for containers in (pods.init_containers(pod), pods.containers(pod)):
        waits = [(status, wait) for status in containers if (wait := pods.state(status).waiting) and wait.reason]
        if waits:
            _, wait = min(waits, key=_rank)
            return Wait(
                BY_WAITING_REASON.get(wait.reason or "") or word(wait.reason, reasons.NOT_CONSIDERED), wait.message
            )
    return Wait(SCHEDULED)


def explained(wait: Wait, events: Sequence[Event]) -> Wait:
    """Return the cause from the pod's events, since only events tell why containers are not created; else `wait`."""
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
    """Return a sort key: a hopeless reason first, a reason that says nothing last."""
    status, wait = waiting
    hopeless = BY_WAITING_REASON.get(wait.reason or "") in HOPELESS
    return not hopeless, wait.reason in SAYS_NOTHING, status.name or ""


def _latest(events: Sequence[Event], event_reasons: tuple[str, ...]) -> Event | None:
    matching = [event for event in events if event.reason in event_reasons]
    return max(matching, key=lambda event: (event.seen_at or pods.LONG_AGO, event.metadata.name), default=None)
