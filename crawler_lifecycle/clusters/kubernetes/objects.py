"""Kubernetes objects as the API server sends them, with only the fields that the adapter reads.

The decoder (`http/decoding.py`) skips all other fields. Every field may be missing or null: a field that a newer or
older server leaves out is None and raises no error. A time outside of 1970 to 2200 and an absurd number become None
too: computing with such values would end in an OverflowError.
"""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec

# types of fields that may be missing
Moment = Annotated[datetime, msgspec.Meta(tz=True)] | None
Counter = int | None
Words = str | None

FIRST_MOMENT, LAST_MOMENT = datetime(1970, 1, 2, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
# The grace is the time that a pod has to end after a request to end.
USUAL_GRACE = timedelta(seconds=30)  # if the pod's specification names no grace
LONGEST_GRACE = 366 * 24 * 3600  # seconds; a longer grace is absurd
LARGEST = 2**31 - 1  # the largest number that a database column keeps
LARGEST_COUNT = LARGEST >> 8  # keeps the sum of restarts over a pod's containers below LARGEST
LABELS = {  # the label's key by the field in `Labels`
    "installation": "crawler-lifecycle/installation",
    "run_uid": "crawler-lifecycle/run-uid",
    "task": "crawler-lifecycle/task",
    "attempt": "crawler-lifecycle/attempt",
    "spec_hash": "crawler-lifecycle/spec-hash",
    "controller_uid": "batch.kubernetes.io/controller-uid",  # stays on an orphan pod, whose owner reference is lost
}

DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"  # annotation of a pod, written by people and injectors


class Object(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Base class of objects and their parts.

    Objects hold no cycles, so `gc=False` spares Python's garbage collector a walk through a million objects.
    """


def forget_absurd_times(struct: msgspec.Struct, *names: str) -> None:
    """Set these fields of a new, frozen struct to None if their time is before FIRST_MOMENT or after LAST_MOMENT."""
    for name in names:
        at = getattr(struct, name)
        if at is not None and not FIRST_MOMENT <= at < LAST_MOMENT:
            msgspec.structs.force_setattr(struct, name, None)


def forget_absurd_number(struct: msgspec.Struct, name: str, least: int, most: int) -> None:
    """Set this field of a new, frozen struct to None if its number is not within `least` to `most`."""
    number = getattr(struct, name)
    if number is not None and not least <= number <= most:
        msgspec.structs.force_setattr(struct, name, None)


def is_exit_code(number: int) -> bool:
    """Return whether the number can be an exit code: these have 32 bits, and Windows uses the negative ones."""
    return -LARGEST - 1 <= number <= LARGEST


def is_positive(count: int | None) -> bool:
    return count is not None and count > 0


class Labels(msgspec.Struct, frozen=True, gc=False, rename=LABELS):
    installation: Words = None
    run_uid: Words = None
    task: Words = None
    attempt: Words = None
    spec_hash: Words = None
    controller_uid: Words = None


NO_LABELS = Labels()


class Owner(Object, frozen=True):
    uid: Words = None
    controller: bool | None = None


class Metadata(Object, frozen=True):
    name: str = ""
    uid: str = ""
    labels: Labels | None = None
    creation_timestamp: Moment = None
    deletion_timestamp: Moment = None  # the end of the grace after a deletion; None: the object was not deleted
    deletion_grace_period_seconds: Counter = None  # from the deletion's request until deletion_timestamp
    resource_version: Words = None
    owner_references: list[Owner] | None = None

    def __post_init__(self) -> None:
        if self.deletion_timestamp is not None:
            forget_absurd_number(self, "deletion_grace_period_seconds", 0, LONGEST_GRACE)
            forget_absurd_times(self, "deletion_timestamp")
        forget_absurd_times(self, "creation_timestamp")


class PodAnnotations(msgspec.Struct, frozen=True, gc=False, rename={"default_container": DEFAULT_CONTAINER}):
    default_container: Words = None


class PodMetadata(Metadata, frozen=True):
    annotations: PodAnnotations | None = None


class Condition(Object, frozen=True):
    type: Words = None
    status: Words = None
    reason: Words = None
    message: Words = None
    last_transition_time: Moment = None  # when `status` changed last

    def __post_init__(self) -> None:
        forget_absurd_times(self, "last_transition_time")

    @property
    def is_true(self) -> bool:
        return self.status == "True"


class PodFailurePolicy(Object, frozen=True):
    """A Job's rules for failed pods. Only the presence of the policy matters; the rules are not read."""


class TemplateSpec(Object, frozen=True):
    termination_grace_period_seconds: Counter = None

    def __post_init__(self) -> None:
        forget_absurd_number(self, "termination_grace_period_seconds", 0, LONGEST_GRACE)


class TemplateMetadata(Object, frozen=True):
    labels: Labels | None = None


class Template(Object, frozen=True):
    metadata: TemplateMetadata | None = None
    spec: TemplateSpec | None = None


class JobSpec(Object, frozen=True):
    suspend: bool | None = None
    managed_by: Words = None
    template: Template | None = None
    pod_failure_policy: PodFailurePolicy | None = None


class JobStatus(Object, frozen=True):
    conditions: list[Condition] | None = None
    start_time: Moment = None
    completion_time: Moment = None
    # numbers of pods
    active: Counter = None
    ready: Counter = None
    terminating: Counter = None
    succeeded: Counter = None
    failed: Counter = None

    def __post_init__(self) -> None:
        forget_absurd_times(self, "start_time", "completion_time")
        forget_absurd_number(self, "failed", 0, LARGEST_COUNT)


NO_JOB_STATUS = JobStatus()
JOB_CONTROLLER = "kubernetes.io/job-controller"  # the cluster's own


class Job(Object, frozen=True):
    metadata: Metadata
    spec: JobSpec | None = None
    status: JobStatus | None = None

    @property
    def grace(self) -> timedelta:
        """Return the grace of the Job's pods."""
        template = self.spec.template.spec if self.spec and self.spec.template else None
        seconds = template.termination_grace_period_seconds if template else None
        return USUAL_GRACE if seconds is None else timedelta(seconds=seconds)

    @property
    def other_manager(self) -> str | None:
        """Return the Job's controller; None for the cluster's own. Kueue runs Jobs in another cluster."""
        manager = self.spec.managed_by if self.spec else None
        return None if manager == JOB_CONTROLLER else manager or None


class ContainerWaiting(Object, frozen=True):
    reason: Words = None
    message: Words = None


class ContainerRunning(Object, frozen=True):
    started_at: Moment = None

    def __post_init__(self) -> None:
        forget_absurd_times(self, "started_at")


class Terminated(Object, frozen=True):
    exit_code: Counter = None
    reason: Words = None
    message: Words = None
    started_at: Moment = None
    finished_at: Moment = None

    def __post_init__(self) -> None:
        forget_absurd_times(self, "started_at", "finished_at")
        forget_absurd_number(self, "exit_code", -LARGEST - 1, LARGEST)


class ContainerState(Object, frozen=True):
    waiting: ContainerWaiting | None = None
    running: ContainerRunning | None = None
    terminated: Terminated | None = None


class ContainerStatus(Object, frozen=True):
    name: Words = None
    restart_count: Counter = None
    state: ContainerState | None = None
    last_state: ContainerState | None = None

    def __post_init__(self) -> None:
        forget_absurd_number(self, "restart_count", 0, LARGEST_COUNT)


class PodContainer(Object, frozen=True):
    name: Words = None
    restart_policy: Words = None


class PodSpec(Object, frozen=True):
    node_name: Words = None
    containers: list[PodContainer] | None = None
    init_containers: list[PodContainer] | None = None
    restart_policy: Words = None


class PodStatus(Object, frozen=True):
    phase: Words = None
    reason: Words = None
    message: Words = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class Pod(Object, frozen=True):
    metadata: PodMetadata
    spec: PodSpec | None = None
    status: PodStatus | None = None


class Series(Object, frozen=True):
    """Repetitions of an event."""

    last_observed_time: Moment = None

    def __post_init__(self) -> None:
        forget_absurd_times(self, "last_observed_time")


class Involved(Object, frozen=True):
    """The object of an event."""

    uid: Words = None


class ClusterEvent(Object, frozen=True):
    """An event in the old notation, with counters and times of its own, or in the new notation, with a series."""

    metadata: Metadata
    involved_object: Involved | None = None
    reason: Words = None
    message: Words = None
    count: Counter = None
    first_timestamp: Moment = None
    last_timestamp: Moment = None
    event_time: Moment = None
    series: Series | None = None

    def __post_init__(self) -> None:
        forget_absurd_times(self, "first_timestamp", "last_timestamp", "event_time")

    @property
    def seen_at(self) -> datetime | None:
        """Return when the event happened last."""
        series = self.series.last_observed_time if self.series else None
        return series or self.last_timestamp or self.event_time or self.first_timestamp


class Named(Object, frozen=True):
    """Any object in a metadata-only list."""

    metadata: Metadata


class NamespaceStatus(Object, frozen=True):
    phase: Words = None


class Namespace(Object, frozen=True):
    metadata: Metadata
    status: NamespaceStatus | None = None
