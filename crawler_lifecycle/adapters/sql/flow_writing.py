"""Writes of members and groups, by pages."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Column, Connection, Integer, case, delete, insert, update

from crawler_lifecycle.adapters.sql.flow_locks import without_index
from crawler_lifecycle.adapters.sql.flow_rows import (
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
from crawler_lifecycle.adapters.sql.flow_schema import flow_groups, flow_members
from crawler_lifecycle.adapters.sql.pages import pages, rows_as_table
from crawler_lifecycle.contract.flows.definition import GroupDefinition, MemberDefinition
from crawler_lifecycle.domain.flows.plan import Change
from crawler_lifecycle.domain.flows.rows import GroupRow, MemberKind, MemberRow

KEY = [members.flow, members.number]
# columns of a page of changes with the values of the row before
WAS_COLUMNS = [
    Column("was_generation", Integer),
    Column("was_attempt", Integer),
    Column("was_state", members.state.type),
]
FOLLOWS_DEFINITION = [column for column in MEMBER_COLUMNS if column not in (members.number, *STATE_COLUMNS)]
DEFINED = [*MEMBER_COLUMNS, members.definition]
Defined = tuple[MemberRow, MemberDefinition]
DefinedGroup = tuple[GroupRow, GroupDefinition]


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
    """Write members with another definition. Arguments from a retry belonged to the former definition."""
    for page in pages(changed):
        rows = [(flow, *member_values(row), definition.model_dump_json()) for row, definition in page]
        new = rows_as_table(tx, [members.flow, *DEFINED], rows).c
        values = {column.name: new[column.name] for column in DEFINED if column is not members.number}
        same = (members.flow == new.flow, members.number == new.number)
        tx.execute(update(flow_members).where(*same).values(**values, arguments=None, door=door))


def write_states(tx: Connection, flow: int, changed: Sequence[MemberRow], door: int | None = None) -> None:
    """Write the members' states. The caller holds locks on the members, or on the flow. `door`: mark the rows."""
    mark = {} if door is None else {"door": door}
    for page in pages(sorted(changed)):
        rows = [(flow, row.number, *state_values(row)) for row in page]
        new = rows_as_table(tx, [*KEY, *STATE_COLUMNS], rows).c
        values = {column.name: new[column.name] for column in STATE_COLUMNS}
        same = (members.flow == new.flow, members.number == new.number)
        tx.execute(update(flow_members).where(*same).values(**values, **mark))


def write_changes(tx: Connection, flow: int, changes: Sequence[Change]) -> int:
    """Write the supervisor's changes of rows that are still as they were. Return the number of written rows.

    A step's end settles its member without the supervisor, so the supervisor leaves a step's attempt as on record.
    """
    written = 0
    for page in pages(changes):
        rows = [
            (
                *(flow, change.row.number, change.was.generation, change.was.attempt, change.was.state),
                *state_values(change.row),
            )
            for change in page
        ]
        new = rows_as_table(tx, [*KEY, *WAS_COLUMNS, *STATE_COLUMNS], rows).c
        values: dict[str, Any] = {column.name: new[column.name] for column in STATE_COLUMNS}
        for column in (members.in_flight, members.end_number):
            values[column.name] = case((members.kind == MemberKind.STEP, column), else_=new[column.name])
        is_same = (
            members.flow == new.flow,
            members.number == new.number,
            members.generation == new.was_generation,
            members.attempt == new.was_attempt,
            without_index(members.state) == new.was_state,
        )
        written += tx.execute(update(flow_members).where(*is_same).values(**values)).rowcount
    return written


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
    columns = [*GROUP_COLUMNS, groups.context, groups.definition]
    for page in pages(changed):
        rows = [
            (flow, *group_values(row).values(), definition.context or None, definition.model_dump_json())
            for row, definition in page
        ]
        new = rows_as_table(tx, [groups.flow, *columns], rows).c
        values = {column.name: new[column.name] for column in columns[1:]}
        same = (groups.flow == new.flow, groups.number == new.number)
        tx.execute(update(flow_groups).where(*same).values(**values, door=door))


def delete_groups(tx: Connection, flow: int, numbers: Collection[int]) -> None:
    for page in pages(sorted(numbers)):
        tx.execute(delete(flow_groups).where(groups.flow == flow, groups.number.in_(page)))
