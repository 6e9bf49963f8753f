"""Read facts from a job's pods. The order in which the API server lists pods and containers has no influence."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from crawler_lifecycle.adapters.kubernetes.objects import (
    NO_LABELS,
    Condition,
    ContainerState,
    ContainerStatus,
    Pod,
    PodStatus,
    Terminated,
)

MAIN_CONTAINER = "crawl"
PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
OUT_OF_SIGHT = "Unknown"  # a fifth phase: the node is silent
LONG_AGO = datetime.min.replace(tzinfo=UTC)
NO_STATUS, NO_STATE = PodStatus(), ContainerState()


def controller_uid(pod: Pod) -> str | None:
    """Return the uid of the pod's Job; an orphaned pod keeps the uid only in its label."""
    controllers = sorted(owner.uid for owner in pod.metadata.owner_references or () if owner.controller and owner.uid)
    return controllers[0] if controllers else (pod.metadata.labels or NO_LABELS).controller_uid


def primary_pod(pods: Iterable[Pod]) -> Pod | None:
    """Return the pod that describes the job now: pods without a deletion come first, then the newest."""
    return max(pods, key=_weight, default=None)


def ended_pod(pods: Iterable[Pod], ended_as: str) -> Pod | None:
    """Return the pod that explains a Job's end: among several pods the pod that ended as the Job did."""
    pods = list(pods)
    return primary_pod([pod for pod in pods if phase(pod) == ended_as]) or primary_pod(pods)


def _weight(pod: Pod) -> tuple[bool, datetime, str, str]:
    """Return a sort key; the greatest key belongs to the primary pod. Name and uid make the choice final."""
    metadata = pod.metadata
    return metadata.deletion_timestamp is None, metadata.creation_timestamp or LONG_AGO, metadata.name, metadata.uid


def phase(pod: Pod) -> str | None:
    return (pod.status or NO_STATUS).phase


def has_ended(pod: Pod) -> bool:
    """Return whether the end is proved: a pod in an unknown phase may run."""
    return phase(pod) in (SUCCEEDED, FAILED)


def lives(pod: Pod) -> bool:
    """Return whether the pod lives for certain, in a phase that we know."""
    return phase(pod) in (PENDING, RUNNING, OUT_OF_SIGHT)


def condition(pod: Pod, kind: str) -> Condition | None:
    """Return the condition; the newest of contradictory duplicates."""
    conditions = [item for item in (pod.status or NO_STATUS).conditions or () if item.type == kind]
    return conditions[0] if len(conditions) == 1 else max(conditions, key=_age, default=None)


def _age(item: Condition) -> tuple[datetime, str, str]:
    return item.last_transition_time or LONG_AGO, item.status or "", item.reason or ""


def is_true(pod: Pod, kind: str) -> bool:
    present = condition(pod, kind)
    return present is not None and present.is_true


def is_out_of_sight(pod: Pod) -> bool:
    """Return whether the node is silent.

    The control plane then sets Ready to false, and ContainersReady, which only the kubelet writes, stays true.
    """
    ready = condition(pod, "Ready")
    is_taken = ready is not None and ready.status != "True" and ready.reason != "ReadinessGatesNotReady"
    lost = pod.status is not None and pod.status.reason == "NodeLost"
    return lost or (is_taken and is_true(pod, "ContainersReady"))


def last_progress(pod: Pod) -> datetime | None:
    """Return the time of the pod's last step: scheduled, sandbox made, init containers through."""
    times = [item.last_transition_time for item in (pod.status or NO_STATUS).conditions or ()]
    return max((time for time in times if time), default=pod.metadata.creation_timestamp)


def containers(pod: Pod) -> list[ContainerStatus]:
    return _sorted((pod.status or NO_STATUS).container_statuses)


def init_containers(pod: Pod) -> list[ContainerStatus]:
    return _sorted((pod.status or NO_STATUS).init_container_statuses)


def plain_init_containers(pod: Pod) -> Iterator[ContainerStatus]:
    """Return init containers without sidecars, because sidecars end with the pod and may exit with an error code."""
    specs = (pod.spec.init_containers if pod.spec else None) or ()
    sidecars = {spec.name for spec in specs if spec.restart_policy == "Always"}
    return (container for container in init_containers(pod) if container.name not in sidecars)


def failed_init(pod: Pod) -> ContainerStatus | None:
    """Return the init container that kept the main container from starting."""
    ended = ((container, state(container).terminated) for container in plain_init_containers(pod))
    return next((container for container, end in ended if end and end.exit_code), None)


def container_with_log(pod: Pod) -> str | None:
    """Return the name of the container whose log explains the pod: the main container, or a failed init container."""
    failed, main = failed_init(pod), state(main_container(pod))
    has_begun = main.running is not None or main.terminated is not None
    return failed.name if failed and not has_begun else main_name(pod)


def oom_killed_beside(pod: Pod) -> list[ContainerStatus]:
    """Return the containers beside the main container that ran out of memory, now or before a restart."""
    main = main_name(pod)
    beside = (container for container in (*init_containers(pod), *containers(pod)) if container.name != main)
    return [container for container in beside if any(end.reason == "OOMKilled" for end in _ends_of(container))]


def _ends_of(container: ContainerStatus) -> list[Terminated]:
    return [item.terminated for item in (container.state, container.last_state) if item and item.terminated]


def _sorted(statuses: list[ContainerStatus] | None) -> list[ContainerStatus]:
    if statuses is None or len(statuses) < 2:
        return statuses or []
    return sorted(statuses, key=lambda status: (status.name or "", repr(status.state)))


def main_container(pod: Pod) -> ContainerStatus | None:
    """Return the main container's status. None: the pod shows no main container, at most its sidecars."""
    by_name, name = {container.name: container for container in containers(pod)}, main_name(pod)
    if name is None and len(by_name) == 1:
        return containers(pod)[0]
    return by_name.get(name)


def main_name(pod: Pod) -> str | None:
    """Return the name of the main container: ours, or the first in a pod of another scheduler service."""
    names = [container.name for container in (pod.spec.containers if pod.spec else None) or ()]
    has_ours = MAIN_CONTAINER in names or any(container.name == MAIN_CONTAINER for container in containers(pod))
    return MAIN_CONTAINER if has_ours else next(iter(names), None)


def state(container: ContainerStatus | None) -> ContainerState:
    return (container.state if container else None) or NO_STATE


def end_of_main(pod: Pod) -> Terminated | None:
    return state(main_container(pod)).terminated


def main_ended_for_good(pod: Pod) -> bool:
    """Return whether the main container stays ended, without a restart."""
    return (pod.spec.restart_policy if pod.spec else None) in (None, "Never")


def ends(pod: Pod) -> list[Terminated]:
    """Return the ends of all containers."""
    return [end for container in (*init_containers(pod), *containers(pod)) if (end := state(container).terminated)]


def main_has_begun(pod: Pod) -> bool:
    """Return whether the main container runs or has run.

    The phase does not show this: a container that cannot start keeps a pod Pending.
    """
    main = main_container(pod)
    now, before = state(main), (main.last_state if main else None) or NO_STATE
    return bool(now.running or now.terminated or before.running or before.terminated)


def waiting_beside_main(pod: Pod) -> list[tuple[str, str]]:
    """Return name and reason of waiting containers beside the main container."""
    name = main_name(pod)
    beside = (status for status in (*init_containers(pod), *containers(pod)) if status.name != name)
    return [(status.name or "?", wait.reason or "Waiting") for status in beside if (wait := state(status).waiting)]


def started_at(pod: Pod) -> datetime | None:
    now = state(main_container(pod))
    if now.running:
        return now.running.started_at
    return now.terminated.started_at if now.terminated else None


def exit_code(pod: Pod) -> int | None:
    """Return the program's exit code; None if unknown, such as the kubelet's own 137 for a lost container."""
    end = end_of_main(pod)
    return end.exit_code if end and end.reason != "ContainerStatusUnknown" else None


def due_at(own_pods: Sequence[Pod]) -> datetime | None:
    """Return the time when the last living pod should have ended; None if a living pod has no request to end.

    A pod's deletion carries the time when the grace ends.
    """
    times = [pod.metadata.deletion_timestamp for pod in own_pods if not has_ended(pod)]
    known = [time for time in times if time]
    return max(known) if known and len(known) == len(times) else None
