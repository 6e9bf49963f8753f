"""What of the API server's answers do we read? Only these fields; everything else is skipped, not built.

Every field may be missing or null: what a newer or older server leaves out is unknown and raises nothing. An item that
is of another shape altogether is `Broken`: it keeps its identity, if it has one, and hides none of the others.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Generic, TypeVar

import msgspec

from crawler_lifecycle.errors import TemporaryError

Moment = Annotated[datetime, msgspec.Meta(tz=True)] | None
Counter = int | None
Words = str | None
NOT_DECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
LABELS = {
    "installation": "crawler-lifecycle/installation",
    "run_uid": "crawler-lifecycle/run-uid",
    "task": "crawler-lifecycle/task",
    "attempt": "crawler-lifecycle/attempt",
    "spec_hash": "crawler-lifecycle/spec-hash",
    "controller_uid": "batch.kubernetes.io/controller-uid",  # stays when a pod is orphaned; its owner reference goes
}


class Object(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """gc=False: they hold no cycles, and the collector need not walk through a million of them."""


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
    deletion_timestamp: Moment = None
    resource_version: Words = None
    owner_references: list[Owner] | None = None


class Condition(Object, frozen=True):
    type: Words = None
    status: Words = None
    reason: Words = None
    message: Words = None
    last_transition_time: Moment = None

    @property
    def is_true(self) -> bool:
        return self.status == "True"


class PodFailurePolicy(Object, frozen=True):
    """Only whether there is one."""


class TemplateSpec(Object, frozen=True):
    termination_grace_period_seconds: Counter = None


class Template(Object, frozen=True):
    spec: TemplateSpec | None = None


class JobSpec(Object, frozen=True):
    suspend: bool | None = None
    template: Template | None = None
    pod_failure_policy: PodFailurePolicy | None = None


class JobStatus(Object, frozen=True):
    conditions: list[Condition] | None = None
    start_time: Moment = None
    completion_time: Moment = None
    active: Counter = None
    ready: Counter = None
    terminating: Counter = None
    succeeded: Counter = None
    failed: Counter = None


class Job(Object, frozen=True):
    metadata: Metadata
    spec: JobSpec | None = None
    status: JobStatus | None = None


class Waiting(Object, frozen=True):
    reason: Words = None
    message: Words = None


class Running(Object, frozen=True):
    started_at: Moment = None


class Terminated(Object, frozen=True):
    exit_code: Counter = None
    signal: Counter = None
    reason: Words = None
    message: Words = None
    started_at: Moment = None
    finished_at: Moment = None


class ContainerState(Object, frozen=True):
    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Object, frozen=True):
    name: Words = None
    restart_count: Counter = None
    state: ContainerState | None = None
    last_state: ContainerState | None = None


class PodContainer(Object, frozen=True):
    name: Words = None
    restart_policy: Words = None


class PodSpec(Object, frozen=True):
    node_name: Words = None
    containers: list[PodContainer] | None = None
    init_containers: list[PodContainer] | None = None


class PodStatus(Object, frozen=True):
    phase: Words = None
    reason: Words = None
    message: Words = None
    start_time: Moment = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class Pod(Object, frozen=True):
    metadata: Metadata
    spec: PodSpec | None = None
    status: PodStatus | None = None


class Series(Object, frozen=True):
    count: Counter = None
    last_observed_time: Moment = None


class Involved(Object, frozen=True):
    kind: Words = None
    name: Words = None
    uid: Words = None


class Event(Object, frozen=True):
    """Either of the two ways to write one: by counters and times of its own, or by a series."""

    metadata: Metadata
    involved_object: Involved | None = None
    type: Words = None
    reason: Words = None
    message: Words = None
    count: Counter = None
    first_timestamp: Moment = None
    last_timestamp: Moment = None
    event_time: Moment = None
    series: Series | None = None

    @property
    def seen_at(self) -> datetime | None:
        series = self.series.last_observed_time if self.series else None
        return series or self.last_timestamp or self.event_time or self.first_timestamp


class Named(Object, frozen=True):
    """Any object, as far as its metadata goes: an item of a metadata-only list."""

    metadata: Metadata


class NamespaceStatus(Object, frozen=True):
    phase: Words = None


class Namespace(Object, frozen=True):
    metadata: Metadata
    status: NamespaceStatus | None = None


class Unreadable(TemporaryError):
    """The API server, or something in front of it, answered with something else than what was asked for."""


@dataclass(frozen=True, slots=True)
class Broken:
    """An item that cannot be decoded. Without labels nobody knows whose it is."""

    name: str
    uid: str
    labels: Labels
    problem: str


Item = TypeVar("Item", bound=Object)


@dataclass(frozen=True, slots=True)
class Items(Generic[Item]):
    whole: list[Item]
    broken: list[Broken]


class _List(msgspec.Struct, Generic[Item], frozen=True, gc=False):
    kind: str
    items: list[Item] | None


class _Raw(msgspec.Struct, frozen=True, gc=False):
    kind: str
    items: list[msgspec.Raw] | None


class Decoder(Generic[Item]):
    def __init__(self, kind: str, item: type[Item]) -> None:
        self._kind = kind
        self._one = msgspec.json.Decoder(item)
        self._list = msgspec.json.Decoder(_List[item])  # type: ignore[valid-type]

    def one(self, body: bytes) -> Item:
        try:
            return self._one.decode(body)
        except NOT_DECODABLE as error:
            raise Unreadable(f"the API server's answer is no {self._kind}: {error}") from error

    def page(self, body: bytes) -> Items[Item]:
        """One page of a list. Slower, but complete, if an item is broken."""
        try:
            page = self._list.decode(body)
            self._check(page.kind)
            return Items(page.items or [], [])
        except NOT_DECODABLE:
            return self._item_by_item(body)

    def _item_by_item(self, body: bytes) -> Items[Item]:
        try:
            raw = _RAW.decode(body)
        except NOT_DECODABLE as error:
            raise Unreadable(f"the API server's answer is no list of {self._kind}s: {error}") from error
        self._check(raw.kind)
        items: Items[Item] = Items([], [])
        for each in raw.items or []:
            try:
                items.whole.append(self._one.decode(each))
            except NOT_DECODABLE as error:
                items.broken.append(_broken(each, str(error)))
        return items

    def _check(self, kind: str) -> None:
        if kind != f"{self._kind}List":
            raise Unreadable(f"the API server answered with a {kind} instead of a {self._kind}List")


_RAW = msgspec.json.Decoder(_Raw)


def _broken(item: msgspec.Raw, problem: str) -> Broken:
    """Whatever of its identity is of the shape that it should have."""
    metadata = _mapping(_mapping(_anything(item)).get("metadata"))
    labels = _mapping(metadata.get("labels"))
    known = {field: label for field, key in LABELS.items() if isinstance(label := labels.get(key), str)}
    name, uid = (value if isinstance(value, str) else "" for value in (metadata.get("name"), metadata.get("uid")))
    return Broken(name, uid, Labels(**known), problem)


def _anything(item: msgspec.Raw) -> object:
    try:
        return msgspec.json.decode(item)
    except NOT_DECODABLE:
        return None


def _mapping(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


JOBS = Decoder("Job", Job)
PODS = Decoder("Pod", Pod)
EVENTS = Decoder("Event", Event)
METADATA = Decoder("PartialObjectMetadata", Named)
NAMESPACES = Decoder("Namespace", Namespace)
