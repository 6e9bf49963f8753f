"""Ports for the writers of a flow: its supervisor, people and programs at its doors, and announcers of its ends.

Commands for flows need the doors, the items of crawl managers, and the records for readers.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from crawler_lifecycle.flows.model.manager_records import ItemAttempt, ItemRecord, ItemSums, ManagerStatus, OutputLine
from crawler_lifecycle.flows.model.records import FlowAnswer
from crawler_lifecycle.flows.model.requests import (
    ALL_ITEMS,
    AddItems,
    AppendMembers,
    CancelItems,
    ChangeFlow,
    GraftMembers,
    ItemFilter,
    PushFlow,
    RetryItems,
)
from crawler_lifecycle.flows.ports.records import FlowRecords
from crawler_lifecycle.flows.rules.ends import AttemptEnd
from crawler_lifecycle.flows.rules.messages import (
    AttemptRef,
    FlowRef,
    GrowGroup,
    LedgerPage,
    ReadFlow,
    StartCrawls,
    WriteFlow,
    Written,
)
from crawler_lifecycle.model.flow_states import FlowEnd
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.runs.ports import RunStore, SupervisorExecution


@dataclass(frozen=True, slots=True)
class CrawlStart:
    """A crawl whose attempt is recorded. `request`: for the run's workflow with this id."""

    start: AttemptRef
    workflow_id: str
    request: RunRequest


@dataclass(frozen=True, slots=True)
class CrawlStarts:
    crawls: Sequence[CrawlStart] = ()
    stale: Sequence[int] = ()  # numbers of the members that may not start, because a door was first or writes are lost
    ended: Sequence[AttemptEnd] = ()  # attempts whose end is already recorded, by an earlier try
    version: int = 0  # number of the act; 0: the database has lost acts, or no attempt is recorded
    has_lost: bool = False  # whether the database has lost its last writes: no attempt is new


@dataclass(frozen=True, slots=True)
class CrawlToStop:
    """A crawl's attempt whose run has to stop. Without a run, its workflow may still make one."""

    number: int
    attempt: int
    workflow_id: str
    run_id: int | None
    reason: str | None = None  # from the request for the stop


class FlowLedger(Protocol):
    """The ledger for a flow's supervisor. Fenced if another supervisor has taken over."""

    def begin(self, flow_uid: str, execution: SupervisorExecution) -> FlowRef:
        """Make the execution the supervisor; the epoch goes up by 1, but not for a repeated call."""

    def read(self, step: ReadFlow) -> LedgerPage: ...

    def write(self, step: WriteFlow) -> Written:
        """Write the changes in one transaction, unless the writing is stale.

        A row that is as the change wants it already, from an earlier try, is no reason to refuse. A row with a later
        attempt than `was` is left out: the supervisor's own start has overtaken the write.
        """

    def start_crawls(self, step: StartCrawls) -> CrawlStarts:
        """Record the attempts. An attempt from an earlier try is returned again, whatever doors did since."""

    def end_attempts(
        self, flow: FlowRef, ends: Sequence[AttemptEnd], messages: Mapping[int, str]
    ) -> Sequence[AttemptEnd]:
        """Record ends of attempts that no run reports, such as of a refused crawl. Return these ends.

        An attempt with a run is left out: the run may have come after the reading that found none.
        """

    def crawls_to_stop(self, flow: FlowRef, numbers: Collection[int]) -> list[CrawlToStop]:
        """Mark the members' attempts to be stopped; return the crawls that have not ended.

        Crawls of a manager among the members are returned, too, with their numbers among the flow's members.
        """

    def unlinked_crawls(self, flow: FlowRef, before: datetime) -> list[CrawlToStop]:
        """Return the crawls' attempts that began before the time and have no run."""

    def grow(self, step: GrowGroup) -> None:
        """Add the members for a crawl's tasks up to the expected number, as a door does."""


class FlowDoors(Protocol):
    """Requests of people, programs and grafters. Each is one transaction. NotFound without such a flow.

    `flow` is the flow's id, and for a graft its uid. The commands notify the supervisor, and complete the answer.
    """

    def push(self, request: PushFlow) -> FlowAnswer: ...

    def append(self, flow: str, request: AppendMembers) -> FlowAnswer: ...

    def graft(self, flow_uid: str, request: GraftMembers) -> FlowAnswer: ...

    def change(self, flow: str, request: ChangeFlow) -> FlowAnswer:
        """Cancel, retry or approve members, or hold the flow."""

    def prune(self, flow_uids: Collection[str], ended_before: datetime | None = None) -> int:
        """Delete ended flows with all their rows; runs stay. Return how many were deleted.

        Open flows stay, and flows that have not ended before the moment.
        """


class Delivery(StrEnum):
    """Delivery for an end."""

    NOTICE = "notice"
    EVENT = "event"


@dataclass(frozen=True, slots=True)
class OwedEnd:
    """A recorded end with deliveries still to make."""

    end: FlowEnd
    owed: frozenset[Delivery]


@dataclass(frozen=True, slots=True)
class UnannouncedFlow:
    """An ended flow with a pending delivery."""

    uid: str
    id: str
    ended_at: datetime
    problem: str | None  # the last failure; None: no delivery has failed


class FlowEnds(Protocol):
    """Announcements of flows' ends. An end is recorded as pending in the same transaction as the flow's final state."""

    def owed(self, flow_uid: str) -> list[OwedEnd]:
        """Return the flow's ends with pending deliveries, by number."""

    def settle(self, flow_uid: str, end: int, settled: Sequence[Delivery], problems: Mapping[Delivery, str]) -> None:
        """Write a try to announce the end: deliveries made or refused for good, and problems by delivery.

        The timeline has the first problem, and a later delivery. Nothing is written if the flow was pruned.
        """

    def unannounced(self, since: datetime, before: datetime, *, after: str = "", limit: int) -> list[UnannouncedFlow]:
        """Return a page with ended flows with a pending delivery for an end between the times, by uid, for the audit.

        `after`: the last uid on the previous page.
        """


@dataclass(frozen=True, slots=True)
class FoundItems:
    """A page of items, by number."""

    items: list[ItemRecord]
    rest: int | None  # further items may have higher numbers; None: there are none


class ManagerDoors(Protocol):
    """Requests for managers' items, and readings of the items. `flow` is the flow's id.

    Each request is one transaction. NotFound without such a flow, BadInput without such a manager.
    """

    def add_items(self, flow: str, request: AddItems) -> FlowAnswer:
        """Add items after the delayed items. Conflict if the manager has ended."""

    def retry_items(self, flow: str, request: RetryItems) -> FlowAnswer:
        """Give settled items another attempt. Conflict for the moment between a manager's close and its step's end."""

    def cancel_items(self, flow: str, request: CancelItems) -> FlowAnswer: ...

    def search_items(self, flow: str, chosen: ItemFilter = ALL_ITEMS, *, after: int = 0, limit: int) -> FoundItems:
        """Return a page that may have fewer items than the limit although more items fit, after a number."""

    def items(self, flow: str, chosen: ItemFilter = ALL_ITEMS, *, after: int = 0, limit: int) -> list[ItemRecord]:
        """Return a page that has fewer items than the limit only if no more items fit."""

    def statuses(self, flow: str) -> list[ManagerStatus]:
        """Return the flow's managers in their order; an empty list for a flow without a manager."""

    def sums(self, flow_uids: Collection[str]) -> Mapping[str, ItemSums]:
        """Return the sums over the items of all managers by flow. Flows without a manager that began are left out."""

    def item_attempts(self, flow: str, number: int, manager: str | None = None) -> list[ItemAttempt]:
        """Return the item's attempts in their order. NotFound for an unknown item."""

    def output(self, flow: str, manager: str | None = None) -> list[OutputLine]:
        """Return the last lines that the manager's object has printed or logged."""

    def runs_under_way(self, flow: str) -> list[int]:
        """Return the RunIDs of all crawls under way of the flow's managers."""


class FlowStore(RunStore, Protocol):
    @property
    def flow_doors(self) -> FlowDoors: ...

    @property
    def flow_records(self) -> FlowRecords: ...

    @property
    def manager_doors(self) -> ManagerDoors: ...
