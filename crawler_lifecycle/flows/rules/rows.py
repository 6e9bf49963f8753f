"""The ledger's rows, as far as the rules need them. A row is the truth about its member, group or flow.

Members and groups have numbers in the order of their insertion. Group 0 is the flow's top level. Rows are frozen: the
rules return changed copies, and the adapters write them where the row on record is still the row that was read.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from crawler_lifecycle.base.names import ROOT
from crawler_lifecycle.flows.rules.words import is_by_dependency
from crawler_lifecycle.model.flow_retrying import RetryPolicy
from crawler_lifecycle.model.flow_states import FlowIntent, FlowState, GroupGrowth, MemberKind, MemberState, Ready

NO_RETRY = RetryPolicy()
TOP = 0  # number for the flow's top level


@dataclass(frozen=True, slots=True)
class Target:
    """A need's member or group."""

    number: int
    is_group: bool = False
    task: int | None = None  # a task in the crawl, in place of the whole crawl


@dataclass(frozen=True, slots=True)
class NeedRow:
    """A dependency; a quorum if `share` or `count` is set."""

    on: tuple[Target, ...]
    share: float | None = None
    count: int | None = None
    wait: bool = False  # of a quorum: decide only when all members are final

    @property
    def is_quorum(self) -> bool:
        return self.share is not None or self.count is not None


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group: a sub-workflow, a collection, or a growing group, whose members its `grower` adds."""

    number: int
    path: str = ROOT
    parent: int | None = None
    needs: tuple[NeedRow, ...] = ()
    ignore_cancelled: bool = False
    ignore_discarded: bool = False
    max_parallel: int | None = None
    growth: GroupGrowth | None = None
    grower: int | None = None  # number for the grafter, or for the crawl whose tasks become members
    expected: int = 0  # members that the grower's tasks will become; 0 for a graft
    context: str = ""  # fingerprint of the context
    fingerprint: str = ""  # of the definition


class MemberRow(NamedTuple):
    """A member. A named tuple, because the planner makes many changed copies, which a dataclass makes slowly."""

    number: int
    path: str
    group: int = TOP
    kind: MemberKind = MemberKind.STEP
    needs: tuple[NeedRow, ...] = ()
    ignore_cancelled: bool = False
    ignore_discarded: bool = False
    retry: RetryPolicy = NO_RETRY
    priority: int = 0
    ready: Ready = Ready.ENDED  # of a crawl: whether dependents wait for its archive, too
    start_at: datetime | None = None  # earliest start
    timeout_seconds: float | None = None  # of an approval
    fingerprint: str = ""  # of the definition
    route: str = ""  # of a step: queue, module and function

    state: MemberState = MemberState.SUSPENDED
    cause: str | None = None  # why the member waits
    reason: str | None = None  # why the member ended
    outcome: str | None = None  # word for the last attempt's end
    since: datetime | None = None  # time when the state last changed
    due: datetime | None = None  # end of the pause before an attempt, or of an approval's wait
    generation: int = 1  # 1 more after each retry by people
    attempt: int = 0  # the last attempt's number, over all generations
    attempt_generation: int = 0  # generation of the last attempt; older than `generation` until a retry starts
    tries: int = 0  # attempts in the present generation
    tries_by_outcome: tuple[tuple[str, int], ...] = ()  # its failed attempts, by outcomes that a retry rule names
    in_flight: bool = False  # whether the last attempt may still run
    terminate: bool = True  # whether a cancel asks the attempt under way to end
    end: int = 0  # for a crawl: number of its run's last stored end; 0: none
    decision: bool | None = None  # a person's decision about the approval
    started_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def is_cancelled_by_dependency(self) -> bool:
        """Whether a dependency's end cancelled the member, not people: it waits again once the dependency does."""
        return self.state is MemberState.CANCELLED and is_by_dependency(self.reason)

    @property
    def must_stop(self) -> bool:
        """Whether the attempt under way has to end, after people have cancelled or retried its member."""
        return self.in_flight and self.terminate and self.state is not MemberState.EXECUTING

    def scheduled_at(self, attempt: int) -> datetime | None:
        """Return the time from which the attempt may start: the author's for the first attempt, or its pause's end.

        Without these, `since`: when the needs were satisfied, or, once the attempt has started, the start.
        """
        return (self.start_at if attempt == 1 else None) or self.due or self.since

    @property
    def is_settled(self) -> bool:
        """Whether the member is final and has no running attempt."""
        return self.state.is_final and not self.in_flight


@dataclass(frozen=True, slots=True)
class FlowRow:
    id: str
    name: str | None = None
    state: FlowState = FlowState.EXECUTING
    intent: FlowIntent = FlowIntent.RUN
    accepts_members: bool = True  # False after the whole flow was cancelled
    max_parallel: int | None = None
    fingerprint: str = ""  # of the context
    ignore_cancelled: bool = False  # default for members that authors add later
    ignore_discarded: bool = False
    own_host: str = ""  # the only hosts for the flow's steps; empty: all hosts

    @property
    def open_state(self) -> FlowState:
        """The flow's state while a member is open."""
        return FlowState.PAUSED if self.intent is FlowIntent.PAUSE else FlowState.EXECUTING


@dataclass(slots=True)
class Ledger:
    """All rows in a flow. Members' and groups' paths are unique; a graft's group has its grafter's path."""

    flow: FlowRow
    groups: dict[int, GroupRow] = field(default_factory=lambda: {TOP: GroupRow(TOP)})
    members: dict[int, MemberRow] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)  # keys of appends that were made
    last_member: int = -1  # highest number ever used: removed rows' numbers are not used again
    last_group: int = TOP

    def put(self, members: Iterable[MemberRow] = (), groups: Iterable[GroupRow] = ()) -> None:
        """Add rows, or replace the rows with the same numbers."""
        for group in groups:
            self.groups[group.number] = group
            self.last_group = max(self.last_group, group.number)
        for member in members:
            self.members[member.number] = member
            self.last_member = max(self.last_member, member.number)

    def remove(self, members: Iterable[int] = (), groups: Iterable[int] = ()) -> None:
        for number in members:
            del self.members[number]
        for number in groups:
            del self.groups[number]

    def paths_of_members(self) -> dict[str, int]:
        return {member.path: number for number, member in self.members.items()}

    def paths_of_groups(self) -> dict[str, int]:
        return {group.path: number for number, group in self.groups.items()}


def targets_of(needs: Iterable[NeedRow]) -> Iterator[Target]:
    return (target for need in needs for target in need.on)


def ancestors(groups: Mapping[int, GroupRow], group: int) -> Iterator[int]:
    """Yield the group and the groups around it, the top level last."""
    current: int | None = group
    while current is not None:
        yield current
        current = groups[current].parent
