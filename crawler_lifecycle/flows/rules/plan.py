"""A flow's next acts as the planner decides them (`Plan`), and starts not known to have begun yet (`Unconfirmed`).

A door is a request that changes the flow, such as a push or a cancel; the flow numbers its doors. No attempt begins if
a door came after its plan. So rows read after a later door, still without the attempt, prove that the start never
happens, and the planner may start the member anew. Earlier rows prove nothing: the begin may be late.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from crawler_lifecycle.flows.rules.ends import rule_before
from crawler_lifecycle.flows.rules.rows import GroupRow, MemberRow
from crawler_lifecycle.model.flow_retrying import RetryRule
from crawler_lifecycle.model.flow_states import FlowState


@dataclass(frozen=True, slots=True)
class MemberChange:
    """A row to write. `was`: the row before, as stored."""

    was: MemberRow
    row: MemberRow

    @property
    def has_ended(self) -> bool:
        """Whether an attempt has ended between the rows."""
        return not self.row.in_flight and (self.was.in_flight or self.was.attempt < self.row.attempt)


@dataclass(frozen=True, slots=True)
class AttemptStart:
    """An attempt to start. `before`: the member's row before the start, in the state AVAILABLE."""

    before: MemberRow

    @property
    def number(self) -> int:
        return self.before.number

    @property
    def generation(self) -> int:
        return self.before.generation

    @property
    def attempt(self) -> int:
        return self.before.attempt + 1

    @property
    def rule(self) -> RetryRule | None:
        """The retry rule with changes for this attempt."""
        return rule_before(self.before)


@dataclass(frozen=True, slots=True)
class Plan:
    """The next acts. No part takes effect after a door that the planner does not know.

    A write or a start that a door has outdated is refused, and the supervisor gives the planner the stored rows.
    Otherwise a member could start in spite of a cancel that the planner has not seen.
    """

    changes: tuple[MemberChange, ...] = ()
    groups: tuple[GroupRow, ...] = ()  # groups with further members, for a crawl's tasks
    starts: tuple[AttemptStart, ...] = ()
    stops: tuple[int, ...] = ()  # members with an attempt to stop
    flow_state: FlowState | None = None  # the flow's new state
    wake_at: datetime | None = None  # time to plan again, without an earlier observation

    @property
    def is_empty(self) -> bool:
        return not (self.changes or self.groups or self.starts or self.stops or self.flow_state)


@dataclass(frozen=True, slots=True)
class Pending:
    """An unconfirmed start. `door`: last door before its plan. `was`: the member's row as stored before the start."""

    start: AttemptStart
    door: int
    was: MemberRow


class Unconfirmed:
    """Starts by member, until a begin, a refusal or the member's stored row decides about them."""

    def __init__(self) -> None:
        self._pending: dict[int, Pending] = {}

    def add(self, start: AttemptStart, door: int, was: MemberRow) -> None:
        self._pending[start.number] = Pending(start, door, was)

    def find(self, number: int, attempt: int) -> Pending | None:
        """Return the unconfirmed start of the attempt; None without such a start."""
        pending = self._pending.get(number)
        return pending if pending is not None and pending.start.attempt == attempt else None

    def confirm(self, number: int, attempt: int) -> Pending | None:
        """Note that the attempt has begun. Return its start if the start was unconfirmed."""
        pending = self.find(number, attempt)
        return None if pending is None else self._pending.pop(number)

    def refuse(self, number: int, attempt: int, door: int) -> bool:
        """Note that a host refused the start with this door. Return False if a later plan has a new start."""
        pending = self.find(number, attempt)
        if pending is None or pending.door > door:
            return False
        del self._pending[number]
        return True

    def door_of(self, number: int, default: int) -> int:
        """Return the door for the member's unconfirmed start, or the default."""
        pending = self._pending.get(number)
        return default if pending is None else pending.door

    def clear(self) -> None:
        self._pending.clear()

    @property
    def starts(self) -> Collection[Pending]:
        return self._pending.values()

    @property
    def numbers(self) -> Iterable[int]:
        """The members to read with the next news."""
        return self._pending.keys()

    def has_outdated(self, door: int) -> bool:
        """Return whether a start was planned before the door."""
        return any(pending.door < door for pending in self._pending.values())

    def without_undecided(self, rows: Iterable[MemberRow], door: int) -> list[MemberRow]:
        """Return the rows that decide about their member's start, and forget these starts.

        A row decides if it has the attempt, or was read after a later door than the start's. `door`: the reading's.
        """
        decisive = []
        for row in rows:
            pending = self._pending.get(row.number)
            if pending is None or row.attempt >= pending.start.attempt or door > pending.door:
                self._pending.pop(row.number, None)
                decisive.append(row)
        return decisive
