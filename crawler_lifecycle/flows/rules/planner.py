"""The planner concludes a flow's next acts from its rows and from observations.

A planner is built from the ledger in one pass, and single observations bring the planner on: the work for an
observation is in proportion to the changed members and their direct dependents. A planner keeps nothing beside the
rows, so a supervisor may drop a planner at any time and build another planner from the rows.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from heapq import heappop, heappush
from itertools import islice

from crawler_lifecycle.flows.rules.ends import (
    AttemptBegun,
    AttemptEnd,
    RunSeen,
    TasksSeen,
    after_end,
    after_sight,
)
from crawler_lifecycle.flows.rules.network import FAILURES, REFUSED, Node
from crawler_lifecycle.flows.rules.plan import AttemptStart, MemberChange, Plan
from crawler_lifecycle.flows.rules.rows import TOP, FlowRow, GroupRow, Ledger, MemberRow
from crawler_lifecycle.flows.rules.states import (
    after_begin,
    after_pause,
    ended,
    final_state,
    released,
    started,
    suspended,
)
from crawler_lifecycle.flows.rules.turns import Turns
from crawler_lifecycle.flows.rules.wiring import Wiring, ignored_by
from crawler_lifecycle.flows.rules.words import APPROVAL_TIMEOUT, DRAINED, REJECTED, by_dependency
from crawler_lifecycle.model.flow_states import FlowIntent, FlowState, GroupGrowth, MemberKind, MemberState

Observation = AttemptBegun | AttemptEnd | RunSeen | TasksSeen


class Planner:
    """The state of a flow in memory. `advance` brings the flow on."""

    def __init__(self, ledger: Ledger) -> None:
        self.flow = ledger.flow
        self.rows: dict[int, MemberRow] = {}
        self.wiring = Wiring()
        self.turns = Turns()
        self._changed: dict[int, MemberRow] = {}  # rows as stored, by number
        self._changed_groups: dict[int, GroupRow] = {}
        self._timers: list[tuple[datetime, int]] = []
        self._counts: Counter[MemberState] = Counter()
        self._in_flight: set[int] = set()
        self._stopped: set[int] = set()  # members with a present attempt that was asked to end
        self._to_stop: set[int] = set()
        self._decided: set[int] = set()  # available approvals with a decision
        self._add(sorted(ledger.groups.values(), key=lambda group: group.number), ledger.members.values())

    def restore(self, members: Iterable[MemberRow], groups: Iterable[GroupRow] = ()) -> Collection[int]:
        """Take rows as stored, whatever was planned or observed since. Return the members' numbers.

        Doors decide by the stored rows and ends, so a plan that a door has outdated is void. An end that is not stored
        with its member has to be observed again. Rows with other needs than before need a new planner: see `fits`.
        """
        members = list(members)
        self._add(groups, (row for row in members if row.number not in self.rows))
        for row in members:
            self._changed.pop(row.number, None)
            self._put(row)
            self.wiring.network.touched.add(row.number)
        return [row.number for row in members]

    def fits(self, members: Iterable[MemberRow] = (), groups: Iterable[GroupRow] = ()) -> bool:
        """Return whether the planner can take the rows: the needs of all known members and groups are unchanged."""
        return all(
            row.number not in self.rows or _wired(row) == _wired(self.rows[row.number]) for row in members
        ) and all(
            row.number not in self.wiring.groups or row.needs == self.wiring.groups[row.number].needs for row in groups
        )

    def take_flow(self, flow: FlowRow) -> None:
        self.flow = flow
        self.turns.put_group(self.wiring.groups[TOP], flow.max_parallel)

    def observe(self, seen: Observation) -> None:
        """Take an attempt's begin or end, or a sight of a run. An observation may come twice, and in any order."""
        row = self.rows.get(seen.number)
        if row is None:
            return
        if isinstance(seen, TasksSeen):
            if seen.generation == row.generation:
                self.wiring.see_tasks(seen.number, seen.ends)
            return
        if isinstance(seen, RunSeen):
            if seen.attempt == row.attempt:
                self._grow(seen)
            self._change(after_sight(row, seen))
        elif isinstance(seen, AttemptBegun):
            self._change(after_begin(row, seen))
        else:
            self._change(after_end(row, seen))

    def advance(self, now: datetime, most_starts: int | None = None) -> Plan:
        """Return the next acts. A second call without news returns an empty plan, or the starts beyond the limit."""
        self._pass_time(now)
        self._settle(now)
        starts = tuple(islice(self._starts(now), most_starts))
        stops = tuple(self._stops())
        changes = tuple(MemberChange(was, self.rows[number]) for number, was in sorted(self._changed.items()))
        groups = tuple(self._changed_groups.values())
        self._changed.clear()
        self._changed_groups.clear()
        state = self._flow_state()
        return Plan(changes, groups, starts, stops, state, self._wake_at())

    @property
    def in_flight(self) -> frozenset[int]:
        """Members with an attempt that may run. A new supervisor looks after these attempts first."""
        return frozenset(self._in_flight)

    @property
    def crawls_in_flight(self) -> frozenset[int]:
        return frozenset(number for number in self._in_flight if self.is_crawl(number))

    @property
    def counts(self) -> Mapping[MemberState, int]:
        """Numbers of members by state; states without members are absent."""
        return {state: count for state in MemberState if (count := self._counts[state])}

    def is_crawl(self, number: int) -> bool:
        return self.rows[number].kind is MemberKind.CRAWL

    @property
    def crawls_to_ask(self) -> frozenset[int]:
        """Crawls with an ended run, and without the needed last ends for their tasks. The next sight has the ends."""
        return self.wiring.crawls_to_ask

    def node(self, number: int) -> Node:
        return self.wiring.member(number)

    def _add(self, groups: Iterable[GroupRow], members: Iterable[MemberRow]) -> None:
        groups, members = list(groups), list(members)
        self.wiring.place(groups, members)
        for group in groups:
            self.wiring.put_group(group)
            self.turns.put_group(group, self.flow.max_parallel if group.number == TOP else group.max_parallel)
        for member in members:
            self._put(member)
            self.wiring.put_member(member)

    def _put(self, row: MemberRow) -> None:
        """Take the row into all indexes."""
        old = self.rows.get(row.number)
        self.rows[row.number] = row
        if old is not None:
            self._counts[old.state] -= 1
        self._counts[row.state] += 1
        self._track_attempt(old, row)
        if row.kind is MemberKind.CRAWL:
            self.wiring.note_crawl(row)
        if row.due is not None and not row.state.is_final:
            heappush(self._timers, (row.due, row.number))
        self._track_start(row)
        if old is not None and old.generation != row.generation:
            self.wiring.forget_tasks(row.number)
        if old is not None:
            self.wiring.see(row)

    def _track_start(self, row: MemberRow) -> None:
        is_available = row.state is MemberState.AVAILABLE
        is_approval = row.kind is MemberKind.APPROVAL
        if is_available and not row.in_flight and not is_approval:
            self.turns.wait(row)
        else:
            self.turns.leave(row.number)
        if is_available and is_approval and row.decision is not None:
            self._decided.add(row.number)
        else:
            self._decided.discard(row.number)

    def _track_attempt(self, old: MemberRow | None, row: MemberRow) -> None:
        was_in_flight = old is not None and old.in_flight
        if row.in_flight and not was_in_flight:
            self._in_flight.add(row.number)
            self.turns.occupy(row)
        elif was_in_flight and not row.in_flight:
            self._in_flight.discard(row.number)
            self.turns.release(row)
        if row.must_stop:
            self._to_stop.add(row.number)
        else:
            self._to_stop.discard(row.number)
            self._stopped.discard(row.number)

    def _change(self, row: MemberRow) -> None:
        """Take our own change, for the next plan."""
        old = self.rows[row.number]
        if row is not old:
            self._changed.setdefault(row.number, old)
            self._put(row)

    def _grow(self, seen: RunSeen) -> None:
        for number in self.wiring.grown_by(seen.number):
            group = self.wiring.groups[number]
            if group.growth is GroupGrowth.TASKS and seen.tasks > group.expected:
                self._changed_groups[number] = grown = replace(group, expected=seen.tasks)
                self.wiring.put_group(grown)

    def _pass_time(self, now: datetime) -> None:
        while self._timers and self._timers[0][0] <= now:
            _, number = heappop(self._timers)
            row = self.rows[number]
            if row.due is None or row.due > now:
                continue  # the member has another time by now
            if row.state is MemberState.RETRYABLE:
                self._change(after_pause(row, now))
                self.wiring.network.touched.add(number)  # a dependency may be open again by now
            elif row.state is MemberState.SCHEDULED:
                self.wiring.network.touched.add(number)
            elif row.state is MemberState.AVAILABLE and row.decision is None:
                self._change(ended(row, MemberState.DISCARDED, APPROVAL_TIMEOUT, now))

    def _settle(self, now: datetime) -> None:
        """Bring all members to the state that their dependencies and approvals demand."""
        touched = self.wiring.network.touched
        while True:
            while touched:
                row = self.rows.get(touched.pop())
                if row is not None:
                    self._change(self._standing(row, now))
            for number in sorted(self._decided):
                self._decide(self.rows[number], now)
            if not touched and not self._drain(now):
                return

    def _standing(self, row: MemberRow, now: datetime) -> MemberRow:
        """Return the member's row as its dependencies demand; a started member stays unchanged."""
        if not (row.state.is_unstarted or row.is_cancelled_by_dependency):
            return row
        node = self.node(row.number)
        ignored = ignored_by(row)
        if node.unignored(ignored):
            if row.state is MemberState.CANCELLED:
                return row
            return ended(row, MemberState.CANCELLED, by_dependency(self._culprit(node, ignored)), now)
        if node.open:
            return suspended(row, now)
        return released(row, now)

    def _culprit(self, node: Node, ignored: int) -> str:
        """Return the first failed dependency's path."""
        source = next(source for source in node.inputs if source.value & FAILURES & ~ignored)
        if not source.is_gate:
            return source.name
        return self._culprit(source, 0 if source.value & REFUSED else ignored)

    def _decide(self, row: MemberRow, now: datetime) -> None:
        if row.decision is True:
            self._change(ended(row, MemberState.COMPLETED, None, now))
        elif row.decision is False:
            self._change(ended(row, MemberState.CANCELLED, REJECTED, now))

    def _drain(self, now: datetime) -> bool:
        """Cancel a draining flow's open members once no attempt is under way; return whether a member was open."""
        if self.flow.intent is not FlowIntent.DRAIN or self._in_flight or not self._open:
            return False
        for row in list(self.rows.values()):
            if not row.state.is_final:
                self._change(ended(row, MemberState.CANCELLED, DRAINED, now))
        return True

    def _starts(self, now: datetime) -> Iterable[AttemptStart]:
        while self.flow.intent is FlowIntent.RUN and (number := self.turns.take()) is not None:
            start = AttemptStart(self.rows[number])
            self._change(started(start.before, start.attempt, now))
            yield start

    def _stops(self) -> Iterable[int]:
        for number in sorted(self._to_stop - self._stopped):
            self._stopped.add(number)
            yield number

    @property
    def _open(self) -> int:
        return len(self.rows) - sum(self._counts[state] for state in MemberState if state.is_final)

    def _flow_state(self) -> FlowState | None:
        """Return the flow's new state, or None if the stored state is right."""
        if self._open or self._in_flight or self.wiring.is_short:
            state = self.flow.open_state
        else:
            state = final_state(self._counts)
        if state is self.flow.state:
            return None
        self.flow = replace(self.flow, state=state)
        return state

    def _wake_at(self) -> datetime | None:
        while self._timers:
            due, number = self._timers[0]
            row = self.rows[number]
            if row.due == due and not row.state.is_final:
                return due
            heappop(self._timers)
        return None


def _wired(row: MemberRow) -> tuple[object, ...]:
    return row.needs, row.group, ignored_by(row)
