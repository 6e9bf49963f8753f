"""Writes of members and groups, by pages."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Column, Connection, Integer, Update, delete, insert, update

from crawler_lifecycle.database.flow_schema import flow_groups, flow_members
from crawler_lifecycle.database.pages import PagedStatement, pages
from crawler_lifecycle.flows.model.definition import GroupDefinition, MemberDefinition
from crawler_lifecycle.flows.rules.ends import AttemptEnd
from crawler_lifecycle.flows.rules.plan import MemberChange
from crawler_lifecycle.flows.rules.rows import GroupRow, MemberRow
from crawler_lifecycle.flows.store.locks import without_index
from crawler_lifecycle.flows.store.rows import (
    GROUP_COLUMNS,
    MEMBER_COLUMNS,
    STATE_COLUMNS,
    group_values,
    groups,
    member_values,
    members,
    path_uid,
    state_values,
)

KEY = [members.flow, members.number]
# columns of a page of changes with the values of the row before
WAS_COLUMNS = [
    Column("was_generation", Integer),
    Column("was_attempt", Integer),
    Column("was_state", members.state.type),
]
DEFINED = [*MEMBER_COLUMNS, members.definition]
DEFINED_GROUP = [*GROUP_COLUMNS, groups.context, groups.definition]
Defined = tuple[MemberRow, MemberDefinition]
DefinedGroup = tuple[GroupRow, GroupDefinition]


def _values(new: Any, columns: Sequence[Column[Any]]) -> dict[str, Any]:
    return {column.name: new[column.name] for column in columns if column.name != "number"}


def _changes(new: Any) -> Update:
    """Return the statement for the supervisor's changes."""
    is_unchanged = (
        members.generation == new.was_generation,
        members.attempt == new.was_attempt,
        without_index(members.state) == new.was_state,
    )
    return update(flow_members).where(*is_unchanged).values(_values(new, STATE_COLUMNS))


REPLACE_MEMBERS = PagedStatement(
    [members.flow, *DEFINED], lambda new: update(flow_members).values(_values(new, DEFINED))
)
WRITE_STATES = PagedStatement(
    [*KEY, *STATE_COLUMNS], lambda new: update(flow_members).values(_values(new, STATE_COLUMNS))
)
WRITE_CHANGES = PagedStatement([*KEY, *WAS_COLUMNS, *STATE_COLUMNS], _changes)
REPLACE_GROUPS = PagedStatement(
    [groups.flow, *DEFINED_GROUP], lambda new: update(flow_groups).values(_values(new, DEFINED_GROUP))
)


def insert_members(tx: Connection, flow: int, new: Sequence[Defined], door: int) -> None:
    names = [column.name for column in MEMBER_COLUMNS]
    for page in pages(new):
        rows = [
            {
                **dict(zip(names, member_values(row), strict=True)),
                "flow": flow,
                "path_uid": path_uid(row.path),
                "definition": definition.model_dump_json(),
                "door": door,
            }
            for row, definition in page
        ]
        tx.execute(insert(flow_members), rows)


def replace_members(tx: Connection, flow: int, changed: Sequence[Defined], door: int) -> None:
    """Write members with another definition. Arguments and memory from a retry belonged to the previous definition."""
    for page in pages(changed):
        rows = [(flow, *member_values(row), definition.model_dump_json()) for row, definition in page]
        REPLACE_MEMBERS(tx, rows, arguments=None, memory_factor=None, door=door)


def write_states(tx: Connection, flow: int, changed: Sequence[MemberRow], door: int | None = None) -> None:
    """Write the members' states. The caller holds locks on the members, or on the flow. `door`: mark the rows."""
    mark = {} if door is None else {"door": door}
    for page in pages(sorted(changed)):
        WRITE_STATES(tx, [(flow, row.number, *state_values(row)) for row in page], **mark)


def write_changes(tx: Connection, flow: int, changes: Sequence[MemberChange]) -> int:
    """Write the supervisor's changes of rows that are still as they were. Return the number of written rows."""
    written = 0
    for page in pages(changes):
        rows = [
            (
                *(flow, change.row.number, change.was.generation, change.was.attempt, change.was.state),
                *state_values(change.row),
            )
            for change in page
        ]
        written += WRITE_CHANGES(tx, rows).rowcount
    return written


def end_values(flow: int, end: AttemptEnd) -> dict[str, Any]:
    """Return the values for an end without a result."""
    return {
        "flow": flow,
        "member": end.number,
        "attempt": end.attempt,
        "kind": end.kind,
        "ended_at": end.at,
        "outcome": end.outcome,
        "reason": end.reason,
        "size": 0,
    }


def delete_members(tx: Connection, flow: int, numbers: Collection[int]) -> None:
    for page in pages(sorted(numbers)):
        tx.execute(delete(flow_members).where(members.flow == flow, members.number.in_(page)))


def insert_groups(tx: Connection, flow: int, new: Sequence[DefinedGroup], door: int) -> None:
    for page in pages(new):
        rows: list[dict[str, Any]] = [
            {
                **group_values(row),
                "flow": flow,
                "context": definition.context or None,
                "definition": definition.model_dump_json(),
                "door": door,
            }
            for row, definition in page
        ]
        tx.execute(insert(flow_groups), rows)


def replace_groups(tx: Connection, flow: int, changed: Sequence[DefinedGroup], door: int) -> None:
    for page in pages(changed):
        rows = [
            (flow, *group_values(row).values(), definition.context or None, definition.model_dump_json())
            for row, definition in page
        ]
        REPLACE_GROUPS(tx, rows, door=door)


def delete_groups(tx: Connection, flow: int, numbers: Collection[int]) -> None:
    for page in pages(sorted(numbers)):
        tx.execute(delete(flow_groups).where(groups.flow == flow, groups.number.in_(page)))
