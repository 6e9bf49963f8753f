"""Starts of attempts: the members with their work, the check of a start, and rows for new crawls."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pydantic import JsonValue
from sqlalchemy import Connection, Row, bindparam, insert, select, update

from crawler_lifecycle.database.flow_schema import flow_attempts, flow_members
from crawler_lifecycle.flows.model.definition import MemberDefinition
from crawler_lifecycle.flows.rules.ends import rule_before
from crawler_lifecycle.flows.rules.messages import AttemptRef
from crawler_lifecycle.flows.rules.requesting import arguments_of_attempt, memory_after
from crawler_lifecycle.flows.rules.rows import MemberRow
from crawler_lifecycle.flows.rules.states import started
from crawler_lifecycle.flows.store.reading import NUMBERS, OF_FLOW, AttemptKey, effective_rows
from crawler_lifecycle.flows.store.rows import READ_MEMBER, member_row, members
from crawler_lifecycle.flows.store.writing import note_start, write_states
from crawler_lifecycle.model.flow_states import FlowIntent, MemberState
from crawler_lifecycle.model.naming import crawl_workflow_id

attempts = flow_attempts.c
WORK = (
    select(*READ_MEMBER, members.definition, members.arguments, members.memory_factor)
    .where(OF_FLOW, members.number.in_(NUMBERS))
    .order_by(members.number)
)
ATTEMPTS = (
    select(flow_attempts)
    .where(
        attempts.flow == bindparam("of_flow"),
        attempts.member.in_(NUMBERS),
        attempts.attempt.in_(bindparam("attempts", expanding=True)),
    )
    .order_by(attempts.member, attempts.attempt)
)
THIS_MEMBER = update(flow_members).where(OF_FLOW, members.number == bindparam("of_member"))


@dataclass(frozen=True, slots=True)
class Work:
    """A member with its definition. `arguments` and `memory_factor`: from a retry, or None."""

    row: MemberRow
    definition: MemberDefinition
    arguments: JsonValue
    memory_factor: float | None


@dataclass(frozen=True, slots=True)
class NewAttempt:
    """An attempt that starts. `arguments` and `memory_factor`: None for the definition's."""

    start: AttemptRef
    work: Work
    arguments: JsonValue
    memory_factor: float | None

    @property
    def changes(self) -> dict[str, Any]:
        """Values changed by a retry rule, for the member's further attempts."""
        values = {"arguments": self.arguments, "memory_factor": self.memory_factor}
        return {name: value for name, value in values.items() if value != getattr(self.work, name)}


def read_work(tx: Connection, flow: int, flow_uid: str, numbers: Collection[int]) -> dict[int, Work]:
    """Return the members with effective rows: an attempt may start before the write about the last attempt's end."""
    rows = tx.execute(WORK, {"of_flow": flow, "numbers": sorted(numbers)})
    works = {values[0]: _work(values) for values in rows}
    effective = effective_rows(tx, flow, flow_uid, {number: work.row for number, work in works.items()})
    return {number: replace(work, row=effective[number]) for number, work in works.items()}


def read_attempts(tx: Connection, flow: int, starts: Collection[AttemptRef]) -> dict[AttemptKey, Row[Any]]:
    """Return crawls' recorded attempts, by member and attempt."""
    wanted = {(start.number, start.attempt) for start in starts}
    key = {
        "of_flow": flow,
        "numbers": sorted(number for number, _ in wanted),
        "attempts": sorted({attempt for _, attempt in wanted}),
    }
    rows = tx.execute(ATTEMPTS, key)
    return {(row.member, row.attempt): row for row in rows if (row.member, row.attempt) in wanted}


def may_start(head: Row[Any], door: int) -> bool:
    """Return whether no door was first, and people hold no starts back."""
    return bool(head.door == door and head.intent is FlowIntent.RUN)


def fits(row: MemberRow, start: AttemptRef) -> bool:
    """Return whether the attempt is the member's next attempt."""
    waits = row.state.is_unstarted or row.state is MemberState.RETRYABLE or row.is_cancelled_by_dependency
    is_next = row.generation == start.generation and row.attempt == start.attempt - 1
    return waits and is_next and not row.in_flight


def put_on_record(
    tx: Connection, head: Row[Any], starts: Sequence[tuple[AttemptRef, Work]], now: datetime
) -> list[NewAttempt]:
    """Write crawls' new attempts, and the members with their attempts under way."""
    if not starts:
        return []
    new = [_new_attempt(start, work) for start, work in starts]
    write_states(tx, head.id, [started(item.work.row, item.start.attempt, now) for item in new])
    for item in new:
        if item.changes:
            tx.execute(THIS_MEMBER.values(item.changes), {"of_flow": head.id, "of_member": item.start.number})
    tx.execute(insert(flow_attempts), [_attempt_values(head, item, now) for item in new])
    note_start(tx, head, now)
    return new


def _work(values: Any) -> Work:
    *row, definition, arguments, memory_factor = values
    return Work(member_row(row), MemberDefinition.model_validate_json(definition), arguments, memory_factor)


def _new_attempt(start: AttemptRef, work: Work) -> NewAttempt:
    row, definition = work.row, work.definition.work
    arguments = arguments_of_attempt(row, definition, work.arguments)
    return NewAttempt(start, work, arguments, memory_after(rule_before(row), definition, work.memory_factor))


def _attempt_values(head: Row[Any], item: NewAttempt, now: datetime) -> dict[str, Any]:
    return {
        "flow": head.id,
        "member": item.start.number,
        "attempt": item.start.attempt,
        "generation": item.start.generation,
        "workflow_id": crawl_workflow_id(head.uid, item.start.number, item.start.attempt),
        "arguments": item.arguments,
        "memory_factor": item.memory_factor,
        "created_at": now,
    }
