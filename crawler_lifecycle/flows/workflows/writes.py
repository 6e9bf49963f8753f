"""Writes of a flow's supervisor: changed rows and the flow's state, one write at a time.

Changes that gather during a write go with the next write. Starts wait for the write that completes an approval, because
a step after the approval reads the decision. No start waits for another write.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from temporalio import workflow

from crawler_lifecycle.base.ranges import to_ranges
from crawler_lifecycle.flows.activities.flows import FlowActivities
from crawler_lifecycle.flows.rules.following import completed_before
from crawler_lifecycle.flows.rules.messages import FlowRef, PackedRows, WriteFlow, Written
from crawler_lifecycle.flows.rules.plan import MemberChange
from crawler_lifecycle.flows.rules.planner import Planner, completes_approval
from crawler_lifecycle.flows.rules.rows import NO_RETRY, TOP, MemberRow
from crawler_lifecycle.flows.workflows.acts import Bell, FlowAct
from crawler_lifecycle.model.flow_states import FlowState, MemberKind
from crawler_lifecycle.temporal.in_the_task import at_once
from crawler_lifecycle.temporal.options import WRITE

BYTES_IN_A_WRITE = 1_000_000  # at most, before the compression; Temporal refuses a payload over 2 MB
BYTES_OF_A_CHANGE = 100  # without its reason, which may be a long path


@dataclass(frozen=True, slots=True)
class WriteAnswer:
    """The answer to a write. After a refusal, the members have to be read."""

    members: frozenset[int]
    is_refused: bool
    has_lost: bool  # whether the database has lost ends or writes
    number: int  # of the write


class Writes:
    def __init__(self, bell: Bell) -> None:
        self._act: FlowAct[Written] = FlowAct(bell)
        self._waiting: dict[int, MemberChange] = {}  # by member, from the stored row to the newest row
        self._sent: frozenset[int] = frozenset()
        self._approved: set[int] = set()  # approvals that a write completes
        self._state: FlowState | None = None

    @property
    def is_under_way(self) -> bool:
        return self._act.is_under_way

    @property
    def is_idle(self) -> bool:
        """Whether all changes are stored."""
        return not (self._waiting or self._state or self._act.is_under_way)

    @property
    def numbers(self) -> frozenset[int]:
        """Members with changes that may not be stored yet."""
        return self._sent | self._waiting.keys()

    @property
    def has_approved(self) -> bool:
        return bool(self._approved) and not self._approved.isdisjoint(self.numbers)

    def add(self, changes: Iterable[MemberChange], state: FlowState | None = None) -> None:
        for change in changes:
            number = change.row.number
            earlier = self._waiting.pop(number, None)
            was = change.was if earlier is None else earlier.was
            if was != change.row:
                self._waiting[number] = MemberChange(was, change.row)
                if completes_approval(change.row):
                    self._approved.add(number)
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

    def begin(self, flow: FlowRef, door: int, planner: Planner) -> None:
        """Begin to write the waiting changes, if there are any and no write is under way.

        The flow's state goes with the last changes, so that a flow that has ended has no stored open members.
        An approval is written only after completed steps: a later planner would not compare these steps again.
        """
        if self._act.is_under_way or not (self._waiting or self._state):
            return
        numbers = list(self._fitting())
        changes = [self._waiting.pop(number) for number in numbers]
        step = WriteFlow(
            flow=flow,
            door=door,
            was=PackedRows.from_rows([_standing(change.was) for change in changes]),
            rows=PackedRows.from_rows([_standing(change.row) for change in changes]),
            after=to_ranges(completed_before(planner, _approvals(changes))),
            state=None if self._waiting else self._state,
        )
        self._sent = frozenset(numbers)
        if not self._waiting:
            self._state = None
        is_awaited = self._approved & self._sent or (step.state is not None and step.state.is_final)
        if is_awaited:
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
        answer = WriteAnswer(self.numbers, written.stale, written.has_lost, written.number)
        self._sent = frozenset()
        if written.stale:
            self.clear()
        self._approved &= self._waiting.keys()
        return answer


def _approvals(changes: Iterable[MemberChange]) -> Iterator[int]:
    return (change.row.number for change in changes if change.row.kind is MemberKind.APPROVAL)


def _standing(row: MemberRow) -> MemberRow:
    """Return the row without its definition, which a write does not change."""
    return row._replace(path="", group=TOP, needs=(), retry=NO_RETRY, fingerprint="", route="")
