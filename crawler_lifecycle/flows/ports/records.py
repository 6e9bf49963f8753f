"""Port for readers of flows: people, doors, metrics and the audit."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from pydantic import JsonValue

from crawler_lifecycle.flows.model.definition import MemberDefinition
from crawler_lifecycle.flows.rules.rows import FlowRow, Ledger
from crawler_lifecycle.flows.rules.summary import Tallies
from crawler_lifecycle.model.flow_states import EndKind, FlowState, MemberState


@dataclass(frozen=True, slots=True)
class FlowRecord:
    """A flow for lists."""

    uid: str
    id: str
    name: str | None
    family: str | None
    state: FlowState
    intent: str
    counts: Mapping[MemberState, int]
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    stopped_at: datetime | None
    created_by: str | None
    waits_for: tuple[str, ...] = ()  # `approval:PATH`, `host:MODULE`

    @property
    def total(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class ScheduledFlow:
    """A flow with its place in time: a schedule's occurrence finds its flow by the id."""

    id: str
    state: FlowState
    created_at: datetime
    stopped_at: datetime | None


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """An attempt for people."""

    attempt: int
    generation: int
    created_at: datetime
    ended_at: datetime | None
    kind: EndKind | None
    outcome: str | None
    reason: str | None
    error: str | None
    host: str | None = None  # of a step
    code_version: str | None = None  # of the step's module
    deaths: int = 0
    run_id: int | None = None
    run_uid: str | None = None


@dataclass(frozen=True, slots=True)
class FlowLine:
    """A line in a flow's timeline."""

    at: datetime
    event: str
    message: str
    actor: str | None
    door: str | None
    number: int = 0  # grows from line to line


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a flow's members: all members that one of the fields selects.

    Members whose stored row lags are in every part: their stored states do not count.
    """

    states: Collection[MemberState] = ()
    numbers: Collection[int] = ()
    paths: Collection[str] = ()  # a group's path chooses all its members
    in_flight: bool = False  # members with an attempt under way


@dataclass(frozen=True, slots=True)
class FlowNews:
    """A flow's row, and the members that have changed since a time."""

    uid: str
    row: FlowRow
    door: int
    removal: int  # the last door that removed members
    changed: Mapping[int, datetime]  # times of the last changes, by member's number
    lagging: Collection[int]  # members with a run, begin or end that is newer than their row


@dataclass(frozen=True, slots=True)
class KeptFlow:
    """A flow, or a part of its members with all groups. Rows are effective: the end of a run counts before the
    supervisor notes the end.
    """

    uid: str
    ledger: Ledger
    created_at: datetime
    updated_at: datetime
    context: Mapping[str, JsonValue] | None  # encoded; None if none was given
    definitions: Mapping[int, MemberDefinition] = field(default_factory=dict)  # by member's number
    groups: Mapping[int, Any] = field(default_factory=dict)  # GroupDefinition by group's number
    last_runs: Mapping[int, int] = field(default_factory=dict)  # RunIDs of last attempts, by member's number
    arguments: Mapping[int, JsonValue] = field(default_factory=dict)  # encoded; in place of the definitions' arguments
    restarts: Mapping[int, datetime] = field(default_factory=dict)  # first starts since a retry, by member's number
    problems: Mapping[int, str] = field(default_factory=dict)  # why crawls were refused, by member's number
    has_supervisor: bool = True  # whether a workflow has ever taken the flow up


@dataclass(frozen=True, slots=True)
class FlowFigures:
    """Numbers over all recorded flows, for metrics."""

    flows: Mapping[FlowState, int]
    members: Mapping[MemberState, int]  # in open flows
    silent_since: datetime | None  # oldest last change among executing flows; None: no flow is executing


@dataclass(frozen=True, slots=True)
class SilentFlow:
    """A flow that needs a supervisor: open without a recent write, or ended before a run was reopened."""

    uid: str
    id: str
    state: FlowState


class FlowRecords(Protocol):
    """Read access to flows, for people and doors."""

    def uid_of(self, flow: str) -> str:
        """Return the flow's uid. NotFound without a flow with the id."""

    def page(
        self,
        *,
        limit: int,
        before: str | None = None,
        states: Collection[FlowState] | None = None,
        ids: Collection[str] | None = None,
        family: str | None = None,
        search: str | None = None,
        down_to: str | None = None,
        in_need: bool = False,
    ) -> list[FlowRecord]:
        """Return a page with flows, newest first. `before`: the last uid on the previous page. `search`: text in ids
        and names, in any case. `down_to`: the oldest flow's uid. `in_need`: flows with an undecided approval, without
        a host, or with failed items. Filters are joined by and; an empty collection matches none."""

    def end_of_search(self, before: str | None) -> str | None:
        """Return the uid of the oldest flow that a search reads for a page; None: the search reads all flows."""

    def between(self, first: str, last: str) -> list[ScheduledFlow]:
        """Return flows with ids from the first to the last id, as texts, oldest first."""

    def row(self, flow: str) -> tuple[str, FlowRow]:
        """Return the flow's uid and row alone, for waits."""

    def kept(self, flow: str, part: Part | None = None, *, defined: bool = True) -> KeptFlow:
        """Return the whole flow, or a part of its members. `defined`: with definitions and arguments."""

    def tallies(self, flow: str) -> Tallies:
        """Return the numbers of members by group and state."""

    def news(self, flow: str, since: datetime | None) -> FlowNews:
        """Return the members that have changed since the time, and the lagging members; without a time, all members."""

    def numbers(self, flow: str, paths: Collection[str]) -> Mapping[str, int]:
        """Return the members' numbers by path; paths without a member are left out."""

    def results(self, flow: str, numbers: Collection[int]) -> Mapping[int, JsonValue]:
        """Return the encoded results of the present generation; members without a result are left out."""

    def attempts(self, flow: str, number: int) -> list[AttemptRecord]: ...

    def lines(self, flow: str, *, after: int, limit: int) -> list[FlowLine]:
        """Return lines of the timeline, oldest first. `after`: number of the last line on the previous page."""

    def figures(self) -> FlowFigures: ...

    def awaiting_approval(self, *, limit: int) -> tuple[int, list[str]]:
        """Count the open flows with an undecided approval, and return the ids for the oldest flows."""

    def without_host(self, before: datetime, *, limit: int) -> tuple[int, list[str]]:
        """Count the open flows with a step without a host since the time, and return the ids for the oldest flows.

        A flow with a limit counts only without an attempt under way, since the limit may hold the step back.
        """

    def with_failed_items(self, since: datetime, *, limit: int) -> tuple[int, list[str]]:
        """Count the flows that ended since the time with failed items of managers, and return the oldest flows' ids.

        Cancelled flows do not count.
        """

    def silent(self, since: datetime, *, after: str = "", limit: int) -> list[SilentFlow]:
        """Return a page with open flows whose row has not changed since the time, by uid, for the audit.

        `after`: the last uid on the previous page.
        """

    def reopened(self, before: datetime, *, after: str = "", limit: int) -> list[SilentFlow]:
        """Return a page with ended flows that have not learned of a run's reopening, by uid, for the audit.

        The run was reopened, or has ended again, before the time. `after`: the last uid on the previous page.
        """

    def unstarted(self, before: datetime, *, limit: int) -> list[SilentFlow]:
        """Return open flows from before the time that no workflow has ever taken up, oldest first."""
