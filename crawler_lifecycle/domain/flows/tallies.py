"""Tallies: members counted by group and state. The database counts for a status, so no reader needs all members."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain

from crawler_lifecycle.contract.flows.states import MemberState
from crawler_lifecycle.domain.flows.rows import FlowRow, GroupRow, Ledger, MemberRow, NeedRow, Target


@dataclass(frozen=True, slots=True)
class Tally:
    """Members of a group, inner groups left out, with the same state."""

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
    return Tallies(ledger.flow, ledger.groups, tallies, groups)


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
