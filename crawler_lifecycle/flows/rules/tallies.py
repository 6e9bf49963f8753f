"""Tallies: members counted by group and state. The database counts for a status, so no reader needs all members."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain

from crawler_lifecycle.flows.rules.network import CANCELLED, OPEN, SATISFIED
from crawler_lifecycle.flows.rules.rows import TOP, FlowRow, GroupRow, Ledger, MemberRow, NeedRow, Target
from crawler_lifecycle.flows.rules.wiring import Wiring
from crawler_lifecycle.model.flow_states import GroupGrowth, MemberState

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
    has_leaf: bool = False  # whether a member is not completed and has no dependents

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
    tallies = [tally(row, is_leaf=row.number not in members) for row in ledger.members.values()]
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
        Tally(number, state, in_flight=False, count=0, has_leaf=state is not MemberState.COMPLETED)
        for number, state in states
    ]


def tally(row: MemberRow, *, is_leaf: bool = False, count: int = 1) -> Tally:
    """Return the tally of a single member."""
    has_leaf = is_leaf and row.state is not MemberState.COMPLETED
    return Tally(row.group, row.state, row.in_flight, count, row.started_at, row.ended_at, has_leaf)


def depended_on(
    groups: Mapping[int, GroupRow], needs_of_members: Iterable[tuple[NeedRow, ...]], groups_with_members: set[int]
) -> tuple[frozenset[int], frozenset[int]]:
    """Return the numbers of members and groups with dependents. Equal needs may be given once."""
    members: set[int] = set()
    with_dependents: set[int] = set()
    for target in _targets(chain(needs_of_members, (row.needs for row in groups.values()))):
        (with_dependents if target.is_group else members).add(target.number)
    for group in groups.values():
        if group.grower is not None and (group.number in with_dependents or group.number in groups_with_members):
            members.add(group.grower)
    return frozenset(members), frozenset(with_dependents)


def _targets(needs: Iterable[tuple[NeedRow, ...]]) -> Iterator[Target]:
    for need in chain.from_iterable(needs):
        yield from need.on
