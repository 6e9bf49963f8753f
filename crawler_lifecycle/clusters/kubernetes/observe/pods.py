"""Read a job's pods: phase, conditions, containers, and ends of containers.

The main container runs the crawler; init containers run before, and sidecars run beside. The order in which the API
server lists pods and containers has no influence on any result.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from crawler_lifecycle.clusters.kubernetes.objects import (
    NO_LABELS,
    Condition,
    ContainerState,
    ContainerStatus,
    Pod,
    PodStatus,
    Terminated,
)

MAIN_CONTAINER = "crawl"  # the main container's name in our pods
PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"  # phases
OUT_OF_SIGHT = "Unknown"  # the fifth phase: the node is silent
LOST_EXIT_CODE = 255
LONG_AGO = datetime.min.replace(tzinfo=UTC)
NO_STATUS, NO_STATE = PodStatus(), ContainerState()


def controller_uid(pod: Pod) -> str | None:
    """Return the uid of the pod's Job; an orphan pod keeps the uid only in its label. None: the pod names no Job."""
    controllers = sorted(owner.uid for owner in pod.metadata.owner_references or () if owner.controller and owner.uid)
    return controllers[0] if controllers else (pod.metadata.labels or NO_LABELS).controller_uid


def primary_pod(pods: Iterable[Pod]) -> Pod | None:
    """Return the pod that describes the job now: pods without a deletion come first, then the newest."""
    return max(pods, key=_primary_order, default=None)


def ended_pod(pods: Iterable[Pod], final_phase: str) -> Pod | None:
    """Return the pod that explains a Job's end: the primary pod in the Job's final phase, or else of all pods."""
    pods = list(pods)
    return primary_pod([pod for pod in pods if phase(pod) == final_phase]) or primary_pod(pods)


def _primary_order(pod: Pod) -> tuple[bool, datetime, str, str]:
    """Return a sort key; the greatest key belongs to the primary pod. Name and uid make the choice final."""
    metadata = pod.metadata
    return metadata.deletion_timestamp is None, metadata.creation_timestamp or LONG_AGO, metadata.name, metadata.uid


def phase(pod: Pod) -> str | None:
    return (pod.status or NO_STATUS).phase


def has_ended(pod: Pod) -> bool:
    """Return whether the end is proved; False for a pod in an unknown phase, which may run."""
    return phase(pod) in (SUCCEEDED, FAILED)


def lives(pod: Pod) -> bool:
    """Return whether a phase that we know proves that the pod has not ended. In an unknown phase a pod may live."""
    return phase(pod) in (PENDING, RUNNING, OUT_OF_SIGHT)


def condition(pod: Pod, condition_type: str) -> Condition | None:
    """Return the pod's condition with this type; among contradictory duplicates the newest."""
    conditions = [item for item in (pod.status or NO_STATUS).conditions or () if item.type == condition_type]
    return conditions[0] if len(conditions) == 1 else max(conditions, key=_condition_order, default=None)


def _condition_order(item: Condition) -> tuple[datetime, str, str]:
    return item.last_transition_time or LONG_AGO, item.status or "", item.reason or ""


def is_true(pod: Pod, condition_type: str) -> bool:
    present = condition(pod, condition_type)
    return present is not None and present.is_true


def is_out_of_sight(pod: Pod) -> bool:
    """Return whether the pod's node is silent.

    The control plane then sets the condition Ready to false, while ContainersReady, which only the node writes, stays
    true. A readiness gate that is not met makes a pod not ready, too, but says nothing about the node.
    """
    ready = condition(pod, "Ready")
    is_unready = ready is not None and ready.status != "True" and ready.reason != "ReadinessGatesNotReady"
    is_node_lost = pod.status is not None and pod.status.reason == "NodeLost"
    return is_node_lost or (is_unready and is_true(pod, "ContainersReady"))


def last_progress(pod: Pod) -> datetime | None:
    """Return the time of the pod's last step towards its start: created, scheduled, sandbox made, initialized.

    None: the pod shows no time.
    """
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
    """Return the init container whose failure kept the main container from starting; None without such a container."""
    for container in plain_init_containers(pod):
        end = state(container).terminated
        if end and end.exit_code:
            return container
    return None


def container_with_log(pod: Pod) -> str | None:
    """Return the name of the container whose log explains the pod: the main container, or a failed init container.

    None: the pod names no container.
    """
    failed, main_state = failed_init(pod), state(main_container(pod))
    main_has_run = main_state.running is not None or main_state.terminated is not None
    return failed.name if failed and not main_has_run else main_name(pod)


def oom_killed_beside(pod: Pod) -> list[ContainerStatus]:
    """Return the containers beside the main container that ran out of memory, now or before a restart."""
    return [
        container
        for container in _beside_main(pod)
        if any(end.reason == "OOMKilled" for end in _present_and_last_end(container))
    ]


def _beside_main(pod: Pod) -> list[ContainerStatus]:
    """Return init containers and sidecars."""
    main = main_name(pod)
    return [container for container in (*init_containers(pod), *containers(pod)) if container.name != main]


def _present_and_last_end(container: ContainerStatus) -> list[Terminated]:
    return [item.terminated for item in (container.state, container.last_state) if item and item.terminated]


def _sorted(statuses: list[ContainerStatus] | None) -> list[ContainerStatus]:
    if statuses is None or len(statuses) < 2:
        return statuses or []
    return sorted(statuses, key=lambda status: (status.name or "", repr(status.state)))


def main_container(pod: Pod) -> ContainerStatus | None:
    """Return the main container's status. None: the pod shows no main container, at most its sidecars.

    If the specification names no container, a single container is the main container.
    """
    by_name, name = {container.name: container for container in containers(pod)}, main_name(pod)
    if name is None and len(by_name) == 1:
        return containers(pod)[0]
    return by_name.get(name)


def main_name(pod: Pod) -> str | None:
    """Return the name of the main container: ours, or else the default or the first container.

    An injected sidecar may stand first. Injectors then name the main container as the default.
    None: the specification names no container.
    """
    names = [container.name for container in (pod.spec.containers if pod.spec else None) or ()]
    if MAIN_CONTAINER in names or any(container.name == MAIN_CONTAINER for container in containers(pod)):
        return MAIN_CONTAINER
    default = pod.metadata.annotations.default_container if pod.metadata.annotations else None
    return default if default in names else next(iter(names), None)


def state(container: ContainerStatus | None) -> ContainerState:
    """Return the container's present state: waiting, running or terminated; an empty state if unknown."""
    return (container.state if container else None) or NO_STATE


def end_of_main(pod: Pod) -> Terminated | None:
    """Return how the main container ended; None if it has not ended, or its state is unknown."""
    return state(main_container(pod)).terminated


def main_may_restart(pod: Pod) -> bool:
    """Return whether the pod's restart policy allows the main container another start after its end."""
    return (pod.spec.restart_policy if pod.spec else None) not in (None, "Never")


def container_ends(pod: Pod) -> list[Terminated]:
    """Return how containers have ended; running and waiting containers are left out."""
    return [end for container in (*init_containers(pod), *containers(pod)) if (end := state(container).terminated)]


def main_has_begun(pod: Pod) -> bool:
    """Return whether the main container runs or has run.

    The phase does not show this: a sidecar that cannot start keeps a pod Pending, although the main container runs.
    """
    return any(state.running or state.terminated for state in _states(main_container(pod)))


def _states(container: ContainerStatus | None) -> tuple[ContainerState, ContainerState]:
    """Return the container's states now and before a restart."""
    return state(container), (container.last_state if container else None) or NO_STATE


def has_begun(pod: Pod) -> bool:
    """Return whether any container of the pod runs or has run."""
    states = [state for container in (*init_containers(pod), *containers(pod)) for state in _states(container)]
    return any(state.running or state.terminated for state in states)


def outlived_main(pod: Pod) -> bool:
    """Return whether another container may have lived after the main container's end."""
    main_end = end_of_main(pod)
    ended_at = main_end.finished_at if main_end else None
    plain = {container.name for container in plain_init_containers(pod)}
    for container in _beside_main(pod):
        end = state(container).terminated
        if container.name in plain or (end is None and not state(container).running):
            continue
        if end is None or end.finished_at is None or ended_at is None or end.finished_at > ended_at:
            return True
    return False


def waiting_beside_main(pod: Pod) -> list[tuple[str, str]]:
    """Return name and reason for every waiting container beside the main container."""
    return [
        (container.name or "?", waiting.reason or "Waiting")
        for container in _beside_main(pod)
        if (waiting := state(container).waiting)
    ]


def started_at(pod: Pod) -> datetime | None:
    """Return when the main container started last; None while the container waits."""
    main = state(main_container(pod))
    if main.running:
        return main.running.started_at
    return main.terminated.started_at if main.terminated else None


def exit_code(pod: Pod) -> int | None:
    """Return the program's exit code; None before its end, and if the code is unknown.

    The code of a lost container does not count.
    """
    end = end_of_main(pod)
    return end.exit_code if end and not is_lost(end) else None


def is_lost(end: Terminated) -> bool:
    """Return whether the node has lost the container: its code and times are invented.

    The kubelet gives such a container the code 137. After a reboot or a restart of its runtime that lost the container,
    containerd gives 255 with the reason Unknown; a program's own 255 has the reason Error.
    """
    return end.reason == "ContainerStatusUnknown" or (end.reason == "Unknown" and end.exit_code == LOST_EXIT_CODE)


def due_at(own_pods: Sequence[Pod]) -> datetime | None:
    """Return the time when the pods should have ended: the latest end of a grace among the pods not ended yet.

    None: all pods have ended, or a pod not ended yet was not asked to end.
    """
    grace_ends = [pod.metadata.deletion_timestamp for pod in own_pods if not has_ended(pod)]
    known_ends = [grace_end for grace_end in grace_ends if grace_end]
    all_were_told = len(known_ends) == len(grace_ends)
    return max(known_ends) if known_ends and all_were_told else None
