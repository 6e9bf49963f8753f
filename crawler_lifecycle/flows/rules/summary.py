"""A summary is a flow's status for people, with counts, times and sub-workflows.

The database counts members by group and state for a status, so no reader needs all members.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain

from crawler_lifecycle.base.names import last_name
from crawler_lifecycle.flows.model.records import FlowStatus
from crawler_lifecycle.flows.rules.network import CANCELLED, OPEN, SATISFIED
from crawler_lifecycle.flows.rules.rows import TOP, FlowRow, GroupRow, Ledger, MemberRow, NeedRow, ancestors, targets_of
from crawler_lifecycle.flows.rules.states import flow_state
from crawler_lifecycle.flows.rules.wiring import Wiring
from crawler_lifecycle.model.flow_states import FlowIntent, FlowState, GroupGrowth, MemberState

EMPTY_STATES = {OPEN: MemberState.SUSPENDED, CANCELLED: MemberState.CANCELLED, SATISFIED: MemberState.COMPLETED}


@dataclass(frozen=True, slots=True)
class Tally:
    """A group's members with the same state, without inner groups. An empty group has a tally without members."""

    group: int
    state: MemberState
    in_flight: bool
    count: int = 1
    started_at: datetime | None = None  # first start
    ended_at: datetime | None = None  # last end
    prevents_ok: bool = False  # whether a member without dependents is not completed

    @property
    def is_settled(self) -> bool:
        """Whether the members are final and have no running attempts."""
        return self.state.is_final and not self.in_flight


@dataclass(frozen=True, slots=True)
class Tallies:
    """A flow's tallies with the groups around them."""

    flow: FlowRow
    groups: Mapping[int, GroupRow]
    tallies: list[Tally]
    groups_with_dependents: frozenset[int] = field(default_factory=frozenset)


def tallies_of(ledger: Ledger) -> Tallies:
    """Return the tallies of a whole ledger."""
    needs = (row.needs for row in ledger.members.values())
    members, groups = depended_on(ledger.groups, needs, {row.group for row in ledger.members.values()})
    tallies = [tally(row, has_dependents=row.number in members) for row in ledger.members.values()]
    return Tallies(ledger.flow, ledger.groups, tallies + tallies_of_empty(ledger), groups)


def empty_groups(groups: Mapping[int, GroupRow], groups_with_members: Collection[int]) -> list[int]:
    """Return the numbers for groups with neither members nor groups inside, except for a graft's group."""
    inhabited = {TOP, *groups_with_members, *(row.parent for row in groups.values())}
    return [
        row.number for row in groups.values() if row.number not in inhabited and row.growth is not GroupGrowth.GRAFT
    ]


def tallies_of_empty(ledger: Ledger) -> list[Tally]:
    """Return tallies without members for empty groups, to show a group as its dependents see the group."""
    numbers = empty_groups(ledger.groups, {row.group for row in ledger.members.values()})
    if not numbers:
        return []
    wiring, members = Wiring(), ledger.members.values()
    by_number = sorted(ledger.groups.values(), key=lambda group: group.number)
    wiring.place(by_number, members)
    for group in by_number:
        wiring.put_group(group)
    for member in members:
        wiring.put_member(member)
    states = [(number, EMPTY_STATES[wiring.end(number).value]) for number in numbers]
    return [
        Tally(number, state, in_flight=False, count=0, prevents_ok=state is not MemberState.COMPLETED)
        for number, state in states
    ]


def tally(row: MemberRow, *, has_dependents: bool = True) -> Tally:
    """Return a single member's tally. A member's dependents decide about its failure: they may ignore failures."""
    prevents_ok = not has_dependents and row.state is not MemberState.COMPLETED
    return Tally(row.group, row.state, row.in_flight, 1, row.started_at, row.ended_at, prevents_ok)


def depended_on(
    groups: Mapping[int, GroupRow], needs_of_members: Iterable[tuple[NeedRow, ...]], groups_with_members: set[int]
) -> tuple[frozenset[int], frozenset[int]]:
    """Return the numbers of members and groups with dependents. Equal needs may be given once.

    A graft's members and the jobs for a crawl's tasks count as dependents of their group's `grower`.
    """
    members: set[int] = set()
    with_dependents: set[int] = set()
    needs = chain(needs_of_members, (row.needs for row in groups.values()))
    for target in targets_of(chain.from_iterable(needs)):
        (with_dependents if target.is_group else members).add(target.number)
    for group in groups.values():
        if group.grower is not None and (group.number in with_dependents or group.number in groups_with_members):
            members.add(group.grower)
    return frozenset(members), frozenset(with_dependents)


class _Sums:
    """Sums over a group's members, inner groups included."""

    def __init__(self) -> None:
        self.counts: Counter[MemberState] = Counter()
        self.states: set[MemberState] = set()  # also of empty groups, which count no members
        self.is_settled = True
        self.is_ok = True  # unless a member without dependents is not completed
        self.started_at: datetime | None = None
        self.ended_at: datetime | None = None

    def add(self, tally: Tally, *, prevents_ok: bool) -> None:
        self.counts[tally.state] += tally.count
        self.states.add(tally.state)
        self.is_settled &= tally.is_settled
        self.is_ok &= not prevents_ok
        self.started_at = min(filter(None, (self.started_at, tally.started_at)), default=None)
        self.ended_at = max(filter(None, (self.ended_at, tally.ended_at)), default=None)


def status(ledger: Ledger, now: datetime) -> FlowStatus:
    """Return the status for the flow and all its sub-workflows."""
    return status_of(tallies_of(ledger), now)


def status_of(flow: Tallies, now: datetime) -> FlowStatus:
    """Return the status for the flow and all its sub-workflows from the numbers of members by group and state."""
    sums = {number: _Sums() for number in flow.groups}
    for tally in flow.tallies:
        prevents_ok = tally.prevents_ok
        for group in ancestors(flow.groups, tally.group):
            sums[group].add(tally, prevents_ok=prevents_ok)
            # a group's dependents judge the group, as a member's dependents judge the member
            prevents_ok = prevents_ok and group not in flow.groups_with_dependents
    children: dict[int, list[GroupRow]] = {}
    for inner in flow.groups.values():
        if inner.parent is not None:
            children.setdefault(inner.parent, []).append(inner)
    return _status(flow, TOP, sums, children, now)


def _status(
    flow: Tallies, number: int, sums: Mapping[int, _Sums], children: Mapping[int, list[GroupRow]], now: datetime
) -> FlowStatus:
    sub, head = sums[number], flow.flow
    is_top = number == TOP
    state = flow_state(dict.fromkeys(sub.states, 1))
    if is_top and state is FlowState.EXECUTING and head.intent is FlowIntent.PAUSE:
        state = FlowState.PAUSED
    if is_top and not sub.counts.total():
        state = head.state
    is_open = not sub.is_settled or not state.is_final
    stopped_at = None if is_open else sub.ended_at
    return FlowStatus(
        id=head.id,
        name=head.name if is_top else last_name(flow.groups[number].path),
        state=state if state is FlowState.PAUSED or sub.is_settled else FlowState.EXECUTING,
        ok=not is_open and sub.is_ok,
        total=sum(sub.counts.values()),
        counts=Counter({state: sub.counts[state] for state in MemberState if sub.counts[state]}),
        started_at=sub.started_at,
        stopped_at=stopped_at,
        elapsed=None if sub.started_at is None else (stopped_at or now) - sub.started_at,
        subs={
            last_name(group.path): _status(flow, group.number, sums, children, now)
            for group in sorted(children.get(number, ()), key=lambda group: group.number)
            if group.growth is not GroupGrowth.GRAFT or sums[group.number].states
        },
    )
