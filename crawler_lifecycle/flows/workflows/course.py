"""The course of a flow: its planner, and the further state that the supervisor's parts share.

Acts are the supervisor's own activities, a kind at a time. Changed rows are written together, a second after the first
of them, or with the flow's new state: readers and doors count begins and ends that are not written yet. There is a
single write at a time, no crawl starts beside a write, and no step waits for a write.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar

from temporalio import workflow

from crawler_lifecycle.base.ranges import to_ranges_by_value
from crawler_lifecycle.flows.activities.flows import FlowActivities
from crawler_lifecycle.flows.rules.ends import AttemptBegun, AttemptEnd
from crawler_lifecycle.flows.rules.messages import (
    AttemptRef,
    FlowRef,
    LedgerPage,
    PackedRows,
    WriteFlow,
    Written,
)
from crawler_lifecycle.flows.rules.plan import MemberChange, Unconfirmed
from crawler_lifecycle.flows.rules.planner import Planner
from crawler_lifecycle.flows.rules.rows import NO_RETRY, TOP, GroupRow, Ledger, MemberRow
from crawler_lifecycle.flows.rules.states import after_begin
from crawler_lifecycle.model.flow_states import FlowState
from crawler_lifecycle.temporal.options import WRITE, at_once

Result = TypeVar("Result")
GATHERING = timedelta(seconds=1)  # time for further changes before a write
BYTES_IN_A_WRITE = 1_000_000  # at most, before the compression; Temporal refuses a payload over 2 MB
BYTES_OF_A_CHANGE = 100  # without its reason, which may be a long path


class Bell:
    """Wakes the supervisor for results, nudges and times."""

    def __init__(self) -> None:
        self._has_rung = False
        self._alarms: list[datetime] = []  # times with a timer

    def ring(self, *_: object) -> None:
        self._has_rung = True

    def ring_at(self, *times: datetime | None) -> None:
        """Ring at the first of the times, or earlier: no timer is set after a timer that is set already.

        So most flows need a single timer, and not a timer for every step that ends.
        """
        time = min((time for time in times if time is not None), default=None)
        if time is None or (self._alarms and self._alarms[0] <= time):
            return
        heappush(self._alarms, time)
        delay = max(0.0, (time - workflow.now()).total_seconds())
        asyncio.get_running_loop().call_later(delay, self._ring_alarm)

    async def wait(self) -> None:
        await workflow.wait_condition(lambda: self._has_rung)
        self._has_rung = False

    def _ring_alarm(self) -> None:
        heappop(self._alarms)
        self.ring()


class FlowAct(Generic[Result]):
    """An act that is under way once at a time. The supervisor takes the result when the bell rings."""

    def __init__(self, bell: Bell) -> None:
        self._bell = bell
        self._task: asyncio.Task[Result] | None = None

    @property
    def is_under_way(self) -> bool:
        return self._task is not None

    def begin(self, activity: Coroutine[Any, Any, Result]) -> None:
        self._task = asyncio.create_task(activity)
        self._task.add_done_callback(self._bell.ring)

    def take(self) -> Result | None:
        """Return the result if the act has ended, once; raise its error. None: no act has ended."""
        if self._task is None or not self._task.done():
            return None
        task, self._task = self._task, None
        return task.result()


@dataclass(frozen=True, slots=True)
class WriteAnswer:
    """The answer to a write. After a refusal, the members have to be read."""

    members: frozenset[int]
    is_refused: bool
    has_lost: bool  # whether the database has lost ends or writes
    version: int
    begins: tuple[AttemptBegun, ...]  # written although the planner did not know them


class Writes:
    def __init__(self, bell: Bell) -> None:
        self._act: FlowAct[Written] = FlowAct(bell)
        self._waiting: dict[int, MemberChange] = {}  # by member, from the stored row to the newest row
        self._sent: frozenset[int] = frozenset()
        self._state: FlowState | None = None
        self._since: datetime | None = None  # when the first change began to wait
        self.is_wanted = False  # whether to write also without a change, for begins of steps

    @property
    def is_under_way(self) -> bool:
        return self._act.is_under_way

    @property
    def is_idle(self) -> bool:
        """Whether all changes are stored."""
        return not (self._waiting or self._state or self._act.is_under_way)

    @property
    def due(self) -> datetime | None:
        """Time for the next write; None without waiting changes, and while a write is under way."""
        if self._since is None or not self._waiting or self._act.is_under_way:
            return None
        return self._since + GATHERING

    @property
    def numbers(self) -> frozenset[int]:
        """Members with changes that may not be stored yet."""
        return self._sent | self._waiting.keys()

    def add(self, changes: Iterable[MemberChange], state: FlowState | None = None) -> None:
        for change in changes:
            number = change.row.number
            earlier = self._waiting.pop(number, None)
            was = change.was if earlier is None else earlier.was
            if was != change.row:
                self._waiting[number] = MemberChange(was, change.row)
        self._state = state or self._state

    def overtake(self, change: MemberChange) -> MemberRow:
        """Drop the member's waiting change, because a start follows; return the row before both."""
        earlier = self._waiting.pop(change.row.number, None)
        return change.was if earlier is None else earlier.was

    def forget(self, numbers: Iterable[int]) -> None:
        """Drop waiting changes for members with newly read rows."""
        for number in numbers:
            self._waiting.pop(number, None)

    def clear(self) -> None:
        """Drop the waiting changes. Another plan follows, from stored rows."""
        self._waiting.clear()
        self._state = None

    def begin(self, flow: FlowRef, door: int) -> None:
        """Begin to write the waiting changes once they are due, if no write is under way.

        The flow's state goes with the last changes, so that a flow that has ended has no stored open members.
        """
        if not self._waiting:
            self._since = None
        elif self._since is None:
            self._since = workflow.now()
        is_due = self.is_wanted or (self.due is not None and self.due <= workflow.now())
        if self._act.is_under_way or not (self._state or is_due):
            return
        self.is_wanted = False
        numbers = list(self._fitting())
        changes = [self._waiting.pop(number) for number in numbers]
        step = WriteFlow(
            flow=flow,
            door=door,
            rows=PackedRows.from_rows([_standing(change.row) for change in changes]),
            ended=to_ranges_by_value({change.row.number: change.row.attempt for change in changes if change.has_ended}),
            state=None if self._waiting else self._state,
        )
        self._sent = frozenset(numbers)
        if not self._waiting:
            self._state = None
        if step.state is not None and step.state.is_final:
            self._act.begin(at_once(FlowActivities.write_flow, step, WRITE))
        else:
            self._act.begin(workflow.execute_activity_method(FlowActivities.write_flow, step, **WRITE))

    def _fitting(self) -> Iterator[int]:
        """Yield the first members with changes that fit into a write."""
        size = 0
        for number in sorted(self._waiting):
            size += BYTES_OF_A_CHANGE + len((self._waiting[number].row.reason or "").encode())
            if size > BYTES_IN_A_WRITE:
                return
            yield number

    def take(self) -> WriteAnswer | None:
        """Return the answer since the last call; None without an answer."""
        written = self._act.take()
        if written is None:
            return None
        answer = WriteAnswer(self.numbers, written.stale, written.has_lost, written.version, written.begins)
        self._sent = frozenset()
        if written.stale:
            self.clear()
        return answer


def planner_of(page: LedgerPage, members: Iterable[MemberRow], groups: Iterable[GroupRow]) -> Planner:
    """Return a planner for the stored rows. `page`: any page from the same reading."""
    ledger = Ledger(page.row)
    ledger.put(members, groups)
    return Planner(ledger)


@dataclass
class Course:
    """A flow as its supervisor knows the flow. `door`: number of the last door whose rows the planner has."""

    flow: FlowRef
    flow_id: str
    planner: Planner
    door: int
    writes: Writes
    unconfirmed: Unconfirmed

    def renew(self, planner: Planner, door: int, version: int) -> None:
        """Continue from newly read rows. Stored acts may be lost."""
        self.planner, self.door = planner, door
        self.flow = self.flow.model_copy(update={"version": version})
        self.writes.clear()
        self.unconfirmed.clear()

    def note(self, version: int) -> None:
        """Note a stored version. From now on, acts are refused on a database without it."""
        if version > self.flow.version:
            self.flow = self.flow.model_copy(update={"version": version})

    def refuse(self, start: AttemptRef, door: int) -> bool:
        """Take a start that a host has refused. Return False if the start was planned anew after the door.

        An attempt that the planner believes to be recorded is not recorded after all: the row has to be read.
        """
        is_pending = self.unconfirmed.find(start.number, start.attempt) is not None
        if not is_pending and self.is_under_way(start.number, start.attempt):
            return True
        return self.unconfirmed.refuse(start.number, start.attempt, door)

    def observe(self, news: Iterable[AttemptBegun | AttemptEnd]) -> None:
        """Take begins and ends of attempts, in the order of a member's attempts."""
        for seen in news:
            self.confirm(seen.number, seen.attempt)
            self.planner.observe(seen)

    def confirm(self, number: int, attempt: int) -> None:
        """Note that the attempt has begun. A start of a crawl is written already, and the begin of a step is not."""
        pending = self.unconfirmed.confirm(number, attempt)
        if pending is not None and not self.planner.is_crawl(number):
            self.writes.add([MemberChange(pending.was, self.planner.rows[number])])

    def take_written(self, begins: Iterable[AttemptBegun]) -> None:
        """Take begins that a write has written."""
        for begun in begins:
            if self.unconfirmed.confirm(begun.number, begun.attempt) is not None:
                self.writes.forget([begun.number])  # the member shown as available
            row = self.planner.rows.get(begun.number)
            if row is not None and (executing := after_begin(row, begun)) is not row:
                self.planner.restore([executing])

    def is_under_way(self, number: int, attempt: int) -> bool:
        """Return whether the member's present attempt is this attempt, and has not ended."""
        row = self.planner.rows.get(number)
        return row is not None and row.in_flight and row.attempt == attempt


def _standing(row: MemberRow) -> MemberRow:
    """Return the row without its definition, which a write does not change."""
    return row._replace(path="", group=TOP, needs=(), retry=NO_RETRY, fingerprint="", route="")
