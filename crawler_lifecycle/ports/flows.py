"""Ports for flows: the ledger for supervisors, doors and readers, and the claims of the hosts of steps.

A flow's row has the number of its last *door*: every request by people, programs and grafts locks the row, raises the
number, and marks the changed rows with it. So a supervisor reads the news since a door, and its starts and writes are
refused as *stale* if a door was first.

Locks are taken in one order: the flow, then members by number, then attempts. A step's end locks its member and
attempt alone. No transaction locks a run and a flow, a member or an attempt.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol

from pydantic import JsonValue

from crawler_lifecycle.contract.flows.announcements import FlowEnd
from crawler_lifecycle.contract.flows.definition import MemberDefinition
from crawler_lifecycle.contract.flows.requests import (
    AppendMembers,
    ApproveMember,
    CancelMembers,
    GraftMembers,
    HoldFlow,
    PushFlow,
    RetryMembers,
)
from crawler_lifecycle.contract.flows.states import FlowState, MemberState
from crawler_lifecycle.contract.requests import RunRequest
from crawler_lifecycle.domain.flows.contexts import Source
from crawler_lifecycle.domain.flows.ends import AttemptEnd, EndKind
from crawler_lifecycle.domain.flows.messages import (
    AttemptRef,
    FlowPage,
    FlowRef,
    GrowGroup,
    ReadFlow,
    StartCrawls,
    WriteFlow,
)
from crawler_lifecycle.domain.flows.rows import FlowRow, Ledger
from crawler_lifecycle.domain.flows.tallies import Tallies
from crawler_lifecycle.ports.runs import Execution

AttemptKey = tuple[str, int, int]  # uid of the flow, number of the member, number of the attempt


@dataclass(frozen=True, slots=True)
class DoorAnswer:
    """Answer to a request. `count`: changed members, as the request counts them."""

    flow_uid: str
    flow_id: str
    count: int = 0
    created: bool = False  # whether the request made the flow
    changed: bool = True  # False: the request was made before, so no supervisor has to be told


class FlowDoors(Protocol):
    """Requests of people, programs and grafters. Each is one transaction. NotFound without such a flow.

    `flow` is the flow's id, and for a graft its uid.
    """

    def push(self, request: PushFlow) -> DoorAnswer: ...

    def append(self, flow: str, request: AppendMembers) -> DoorAnswer: ...

    def graft(self, flow_uid: str, request: GraftMembers) -> DoorAnswer: ...

    def cancel(self, flow: str, request: CancelMembers) -> DoorAnswer: ...

    def retry(self, flow: str, request: RetryMembers) -> DoorAnswer: ...

    def approve(self, flow: str, request: ApproveMember) -> DoorAnswer: ...

    def hold(self, flow: str, request: HoldFlow) -> DoorAnswer: ...

    def prune(self, flow_uids: Collection[str]) -> int:
        """Delete ended flows with all their rows; runs stay. Return how many were deleted; open flows stay."""


@dataclass(frozen=True, slots=True)
class CrawlStart:
    """A crawl whose attempt is on record. `request`: for the run's workflow with this id."""

    start: AttemptRef
    workflow_id: str
    request: RunRequest


@dataclass(frozen=True, slots=True)
class CrawlStarts:
    crawls: Sequence[CrawlStart] = ()
    stale: Sequence[int] = ()  # numbers of the members that may not start, because a door was first
    ended: Sequence[AttemptEnd] = ()  # attempts whose end is on record, from an earlier try


@dataclass(frozen=True, slots=True)
class CrawlToStop:
    """A crawl's attempt whose run has to stop. Without a run, its workflow may still make one."""

    number: int
    attempt: int
    workflow_id: str
    run_id: int | None


class FlowLedger(Protocol):
    """The ledger for a flow's supervisor. Fenced if another supervisor has taken over."""

    def begin(self, flow_uid: str, execution: Execution) -> FlowRef:
        """Make the execution the supervisor; the epoch goes up by 1, but not for a repeated call."""

    def read(self, step: ReadFlow) -> FlowPage: ...

    def write(self, step: WriteFlow) -> bool:
        """Write the changes in one transaction. Return False, without a write, if the writing is stale.

        A row that is as the change wants it already, from an earlier try, is no reason to refuse. A row with a later
        attempt than `was` is left out: the supervisor's own start has overtaken the write.
        """

    def start_crawls(self, step: StartCrawls) -> CrawlStarts:
        """Put the attempts on record. An attempt from an earlier try is returned again, whatever doors did since."""

    def end_attempts(self, flow: FlowRef, ends: Sequence[AttemptEnd], messages: Mapping[int, str]) -> None:
        """Put ends of attempts on record that no run tells, such as of a refused crawl."""

    def crawls_to_stop(self, flow: FlowRef, numbers: Collection[int]) -> list[CrawlToStop]:
        """Mark the members' attempts to be stopped; return the crawls that have not ended."""

    def unlinked_crawls(self, flow: FlowRef, before: datetime) -> list[CrawlToStop]:
        """Return the crawls' attempts that began before the time and have no run."""

    def grow(self, step: GrowGroup) -> None:
        """Add the members for a crawl's tasks up to the expected number, as a door does."""


@dataclass(frozen=True, slots=True)
class ClaimedStep:
    """A step that the host has claimed."""

    start: AttemptRef
    path: str
    definition: MemberDefinition
    arguments: JsonValue  # encoded; of the definition, or of the last retry
    flow_id: str
    flow_name: str | None
    flow_uid: str
    is_grafter: bool
    deaths: int  # processes that died with the attempt


@dataclass(frozen=True, slots=True)
class Claimed:
    mine: Sequence[ClaimedStep] = ()
    held: Sequence[int] = ()  # members whose attempt another host still holds
    ended: Sequence[AttemptEnd] = ()  # attempts whose end is on record, from an earlier try
    stale: Sequence[int] = ()  # members that may not start, because a door was first


@dataclass(frozen=True, slots=True)
class StepEnd:
    """The end of a claimed attempt, with the encoded result as JSON text."""

    flow_uid: str
    start: AttemptRef
    kind: EndKind
    at: datetime
    reason: str | None = None
    outcome: str | None = None
    error: str | None = None  # traceback
    result: str | None = None


@dataclass(frozen=True, slots=True)
class StepInputs:
    """The sources for a step's context: values of the groups around it, and members with results by name."""

    context: Mapping[str, JsonValue]  # encoded
    sources: Mapping[str, Source]


class StepClaims(Protocol):
    """The ledger for hosts of steps. A claim is a host's time-limited right to execute attempts."""

    def claim(
        self, flow: FlowRef, door: int, starts: Sequence[AttemptRef], token: str, host: str, lasts: timedelta,
        code_version: str | None = None,
    ) -> Claimed:  # fmt: skip
        """Put new attempts on record, and claim attempts that no host holds.

        A new attempt starts only if no door was first and people hold no starts back. The epoch is compared only for
        new attempts. An attempt whose claim has expired after its function began counts one more death.

        Attempts with the token already, such as after a lost answer, are the host's. The claim of an attempt without
        deaths notes its function as begun, too; an attempt with deaths begins with `begin`.
        """

    def begin(self, flow_uid: str, starts: Sequence[AttemptRef], token: str) -> None:
        """Note that the functions begin: a later loss of the claim counts as a death."""

    def renew(self, token: str, lasts: timedelta) -> Mapping[AttemptKey, bool]:
        """Renew all claims with the token. Return their attempts, and whether people ask the attempt to stop.

        An expired claim is renewed as long as no other host has taken the attempt.
        """

    def end(self, ends: Sequence[StepEnd], token: str) -> Mapping[AttemptKey, AttemptEnd]:
        """Put ends and results on record in one transaction; return the ends as they are on record. Flows may differ.

        An end whose claim is lost is left out: another host has the attempt. An end that is on record stays. An
        expired claim is not lost as long as no other host has taken the attempt.
        """

    def release(self, token: str, attempts: Collection[AttemptKey] | None = None) -> None:
        """Give claims with the token back, without a death; default: all claims, because the host ends in order."""

    def inputs(self, flow_uid: str, number: int) -> StepInputs: ...

    def results(self, flow_uid: str, numbers: Collection[int]) -> Mapping[int, JsonValue]:
        """Return the encoded results of completed members; members without a result are left out."""

    def source(self, flow_uid: str, path: str) -> Source | None:
        """Return the source for a member's result, or for a group's results; None without such a path."""

    def note_cause(self, flow_uid: str, numbers: Collection[int], cause: str) -> None:
        """Write why unstarted members wait, such as for a host that knows their function."""


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
    host: str | None
    code_version: str | None  # of the author's module, for a step
    deaths: int
    run_id: int | None
    run_uid: str | None


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
    """A part of a flow's members: the members in the states, and the members with the numbers.

    Members with a newer run than their row are in every part: their states on record do not count.
    """

    states: Collection[MemberState] = ()
    numbers: Collection[int] = ()


@dataclass(frozen=True, slots=True)
class FlowNews:
    """A flow's row, and the members that have changed since a time."""

    uid: str
    row: FlowRow
    door: int
    removal: int  # the last door that removed members
    changed: Mapping[int, datetime]  # times of the last changes, by member's number
    by_runs: Collection[int]  # members with a newer run than their row


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
    attempts: Mapping[int, int] = field(default_factory=dict)  # RunIDs of last attempts, by member's number
    arguments: Mapping[int, JsonValue] = field(default_factory=dict)  # encoded; in place of the definitions' arguments


@dataclass(frozen=True, slots=True)
class FlowFigures:
    """Numbers over all flows on record, for metrics."""

    flows: Mapping[FlowState, int]
    members: Mapping[MemberState, int]  # in open flows
    silent_since: datetime | None  # oldest last change among executing flows; None: no flow is executing


@dataclass(frozen=True, slots=True)
class SilentFlow:
    """An open flow without a recent write."""

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
    ) -> list[FlowRecord]:
        """Return a page with flows, newest first. `before`: the last uid on the previous page. Filters are joined by
        and; an empty collection matches none."""

    def between(self, first: str, last: str) -> list[ScheduledFlow]:
        """Return flows with ids from the first to the last id, as texts, oldest first."""

    def row(self, flow: str) -> tuple[str, FlowRow]:
        """Return the flow's uid and row alone, for waits."""

    def kept(self, flow: str, part: Part | None = None) -> KeptFlow:
        """Return the whole flow, or a part of its members."""

    def tallies(self, flow: str) -> Tallies:
        """Return the numbers of members by group and state."""

    def news(self, flow: str, since: datetime | None) -> FlowNews:
        """Return the members that have changed since the time; without a time, all members."""

    def numbers(self, flow: str, paths: Collection[str]) -> Mapping[str, int]:
        """Return the members' numbers by path; paths without a member are left out."""

    def results(self, flow: str, numbers: Collection[int]) -> Mapping[int, JsonValue]:
        """Return the encoded results of the present generation; members without a result are left out."""

    def attempts(self, flow: str, number: int) -> list[AttemptRecord]: ...

    def lines(self, flow: str, *, after: int, limit: int) -> list[FlowLine]:
        """Return lines of the timeline, oldest first. `after`: number of the last line on the previous page."""

    def figures(self) -> FlowFigures: ...

    def ended(self, before: datetime, *, limit: int) -> list[str]:
        """Return the uids for flows with an end before the time, oldest end first."""

    def silent(self, since: datetime, *, after: str = "", limit: int) -> list[SilentFlow]:
        """Return a page with open flows whose row has not changed since the time, by uid, for the audit.

        `after`: the last uid on the previous page.
        """


class Delivery(StrEnum):
    """Delivery for an end."""

    NOTICE = "notice"
    EVENT = "event"


@dataclass(frozen=True, slots=True)
class OwedEnd:
    """An end on record with deliveries still to make."""

    end: FlowEnd
    owed: frozenset[Delivery]


@dataclass(frozen=True, slots=True)
class UnannouncedFlow:
    """An ended flow with an owed delivery."""

    uid: str
    id: str
    ended_at: datetime
    problem: str | None  # the last failure; None: no delivery has failed


class FlowEnds(Protocol):
    """Announcements of flows' ends. An end is on record as owed in the same transaction as the flow's final state."""

    def owed(self, flow_uid: str) -> list[OwedEnd]:
        """Return the flow's ends with owed deliveries, by number."""

    def settle(self, flow_uid: str, end: int, settled: Sequence[Delivery], problems: Mapping[Delivery, str]) -> None:
        """Write a try to announce the end: deliveries made or refused for good, and problems by delivery.

        The timeline has the first problem, and a later delivery. Nothing is written if the flow was pruned.
        """

    def unannounced(self, since: datetime, before: datetime, *, after: str = "", limit: int) -> list[UnannouncedFlow]:
        """Return a page with ended flows with an owed delivery for an end between the times, by uid, for the audit.

        `after`: the last uid on the previous page.
        """
