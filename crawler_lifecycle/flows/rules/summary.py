"""Summary: a flow's status for people, with counts, times and sub-workflows."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

from crawler_lifecycle.base.names import last_name
from crawler_lifecycle.flows.model.records import FlowStatus
from crawler_lifecycle.flows.rules.rows import TOP, GroupRow, Ledger, ancestors
from crawler_lifecycle.flows.rules.states import flow_state
from crawler_lifecycle.flows.rules.tallies import Tallies, Tally, tallies_of
from crawler_lifecycle.model.flow_states import FlowIntent, FlowState, GroupGrowth, MemberState


class _Sums:
    """Sums over a group's members, inner groups included."""

    def __init__(self) -> None:
        self.counts: Counter[MemberState] = Counter()
        self.states: set[MemberState] = set()  # also of empty groups, which count no members
        self.is_settled = True
        self.has_open_leaf = False  # a member without dependents is not completed
        self.started_at: datetime | None = None
        self.ended_at: datetime | None = None

    def add(self, tally: Tally, *, has_leaf: bool) -> None:
        self.counts[tally.state] += tally.count
        self.states.add(tally.state)
        self.is_settled &= tally.is_settled
        self.has_open_leaf |= has_leaf
        self.started_at = min(filter(None, (self.started_at, tally.started_at)), default=None)
        self.ended_at = max(filter(None, (self.ended_at, tally.ended_at)), default=None)


def status(ledger: Ledger, now: datetime) -> FlowStatus:
    """Return the status for the flow and all its sub-workflows."""
    return status_of(tallies_of(ledger), now)


def status_of(flow: Tallies, now: datetime) -> FlowStatus:
    """Return the status for the flow and all its sub-workflows from the numbers of members by group and state."""
    sums = {number: _Sums() for number in flow.groups}
    for tally in flow.tallies:
        has_leaf = tally.has_leaf
        for group in ancestors(flow.groups, tally.group):
            sums[group].add(tally, has_leaf=has_leaf)
            has_leaf = has_leaf and group not in flow.groups_with_dependents
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
        ok=not is_open and not sub.has_open_leaf,
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
