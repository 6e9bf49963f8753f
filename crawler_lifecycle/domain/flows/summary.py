"""Summary: a flow's status for people, with counts, times and sub-workflows."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from itertools import chain

from crawler_lifecycle.contract.flows.names import last_name
from crawler_lifecycle.contract.flows.records import FlowStatus
from crawler_lifecycle.contract.flows.states import FlowIntent, FlowState, GroupGrowth, MemberState
from crawler_lifecycle.domain.flows.rows import TOP, GroupRow, Ledger, MemberRow, ancestors
from crawler_lifecycle.domain.flows.states import flow_state


class _Sums:
    """Sums over a group's members, inner groups included."""

    def __init__(self) -> None:
        self.counts: Counter[MemberState] = Counter()
        self.is_settled = True
        self.has_open_leaf = False  # a member without dependents is not completed
        self.started_at: datetime | None = None
        self.ended_at: datetime | None = None

    def add(self, row: MemberRow, *, is_leaf: bool) -> None:
        self.counts[row.state] += 1
        self.is_settled &= row.is_settled
        self.has_open_leaf |= is_leaf and row.state is not MemberState.COMPLETED
        self.started_at = min(filter(None, (self.started_at, row.started_at)), default=None)
        self.ended_at = max(filter(None, (self.ended_at, row.ended_at)), default=None)


def status(ledger: Ledger, now: datetime) -> FlowStatus:
    """Return the status for the flow and all its sub-workflows, in a single pass."""
    sums = {number: _Sums() for number in ledger.groups}
    members_with_dependents, groups_with_dependents = _depended_on(ledger)
    for row in ledger.members.values():
        is_leaf = row.number not in members_with_dependents
        for group in ancestors(ledger.groups, row.group):
            sums[group].add(row, is_leaf=is_leaf)
            is_leaf = is_leaf and group not in groups_with_dependents
    children: dict[int, list[GroupRow]] = {}
    for inner in ledger.groups.values():
        if inner.parent is not None:
            children.setdefault(inner.parent, []).append(inner)
    return _status(ledger, TOP, sums, children, now)


def _status(
    ledger: Ledger, number: int, sums: Mapping[int, _Sums], children: Mapping[int, list[GroupRow]], now: datetime
) -> FlowStatus:
    sub = sums[number]
    is_top = number == TOP
    state = flow_state(sub.counts) if sub.counts or is_top else FlowState.COMPLETED
    if is_top and state is FlowState.EXECUTING and ledger.flow.intent is FlowIntent.PAUSE:
        state = FlowState.PAUSED
    if is_top and not sub.counts:
        state = ledger.flow.state
    is_open = not sub.is_settled or not state.is_final
    stopped_at = None if is_open else sub.ended_at
    return FlowStatus(
        id=ledger.flow.id,
        name=ledger.flow.name if is_top else last_name(ledger.groups[number].path),
        state=state if state is FlowState.PAUSED or sub.is_settled else FlowState.EXECUTING,
        ok=not is_open and not sub.has_open_leaf,
        total=sum(sub.counts.values()),
        counts={state: sub.counts[state] for state in MemberState if sub.counts[state]},
        started_at=sub.started_at,
        stopped_at=stopped_at,
        elapsed=None if sub.started_at is None else (stopped_at or now) - sub.started_at,
        subs={
            last_name(group.path): _status(ledger, group.number, sums, children, now)
            for group in sorted(children.get(number, ()), key=lambda group: group.number)
            if group.growth is not GroupGrowth.GRAFT or sums[group.number].counts
        },
    )


def _depended_on(ledger: Ledger) -> tuple[set[int], set[int]]:
    """Return the numbers for members and groups with dependents."""
    members: set[int] = set()
    groups: set[int] = set()
    needs = [row.needs for row in ledger.members.values()] + [row.needs for row in ledger.groups.values()]
    for need in chain.from_iterable(needs):
        for target in need.on:
            (groups if target.is_group else members).add(target.number)
    grafted = {row.group for row in ledger.members.values()}
    for group in ledger.groups.values():
        if group.grower is not None and (group.number in groups or group.number in grafted):
            members.add(group.grower)
    return members, groups
