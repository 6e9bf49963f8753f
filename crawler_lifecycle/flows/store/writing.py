"""Writes of members and groups, by pages."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Column, Connection, Row, bindparam, delete, func, insert, select, update

from crawler_lifecycle.database.flow_schema import attempt_begins, flow_groups, flow_members, flows
from crawler_lifecycle.database.pages import PagedStatement, pages
from crawler_lifecycle.flows.model.definition import GroupDefinition, MemberDefinition
from crawler_lifecycle.flows.rules.ends import AttemptEnd
from crawler_lifecycle.flows.rules.rows import GroupRow, MemberRow
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

begins = attempt_begins.c
KEY = [members.flow, members.number]
DEFINED = [*MEMBER_COLUMNS, members.definition]
DEFINED_GROUP = [*GROUP_COLUMNS, groups.context, groups.definition]
Defined = tuple[MemberRow, MemberDefinition]
DefinedGroup = tuple[GroupRow, GroupDefinition]


def _values(new: Any, columns: Sequence[Column[Any]]) -> dict[str, Any]:
    return {column.name: new[column.name] for column in columns if column.name != "number"}


REPLACE_MEMBERS = PagedStatement(
    [members.flow, *DEFINED], lambda new: update(flow_members).values(_values(new, DEFINED))
)
WRITE_STATES = PagedStatement(
    [*KEY, *STATE_COLUMNS], lambda new: update(flow_members).values(_values(new, STATE_COLUMNS))
)
WITH_ARGUMENTS = (
    select(begins.member, begins.generation, begins.arguments)
    .where(begins.flow == bindparam("of_flow"), begins.noted.is_(False), begins.arguments.is_not(None))
    .order_by(begins.member, begins.attempt)
)
KEEP_ARGUMENTS = (
    update(flow_members)
    .where(
        members.flow == bindparam("of_flow"),
        members.number == bindparam("of_member"),
        members.generation == bindparam("of_generation"),
    )
    .values(arguments=bindparam("given", type_=members.arguments.type))
)
LAST_ATTEMPT = (
    select(members.attempt)
    .where(members.flow == begins.flow, members.number == begins.member)
    .correlate(attempt_begins)
    .scalar_subquery()
)
NOTE = (
    update(attempt_begins)
    .where(begins.flow == bindparam("of_flow"), begins.noted.is_(False), begins.attempt <= LAST_ATTEMPT)
    .values(noted=True)
)
FIRST_BEGIN = select(func.min(begins.begun_at)).where(begins.flow == flows.c.id).correlate(flows).scalar_subquery()
FIRST_START = (
    update(flows)
    .where(flows.c.id == bindparam("of_flow"), flows.c.started_at.is_(None))
    .values(started_at=func.coalesce(FIRST_BEGIN, bindparam("of_crawl", type_=flows.c.started_at.type)))
)
WRITE_PLANNED = PagedStatement(
    [*KEY, *STATE_COLUMNS],
    lambda new: update(flow_members).where(members.attempt <= new.attempt).values(_values(new, STATE_COLUMNS)),
)
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


def write_planned(tx: Connection, flow: int, planned: Sequence[MemberRow]) -> None:
    """Write the supervisor's rows. A row from before the stored attempt came too late: the begin is written already."""
    for page in pages(sorted(planned)):
        WRITE_PLANNED(tx, [(flow, row.number, *state_values(row)) for row in page])


def write_states(tx: Connection, flow: int, changed: Sequence[MemberRow], door: int | None = None) -> None:
    """Write the members' states. The caller holds locks on the members, or on the flow. `door`: mark the rows."""
    mark = {} if door is None else {"door": door}
    for page in pages(sorted(changed)):
        WRITE_STATES(tx, [(flow, row.number, *state_values(row)) for row in page], **mark)


def keep_arguments(tx: Connection, flow: int) -> None:
    """Let members keep the arguments from new begins. A retry rule may have changed them."""
    for begin in tx.execute(WITH_ARGUMENTS, {"of_flow": flow}).all():
        key = {"of_flow": flow, "of_member": begin.member, "of_generation": begin.generation}
        tx.execute(KEEP_ARGUMENTS, {**key, "given": begin.arguments})


def note_begins(tx: Connection, head: Row[Any]) -> None:
    """Mark the begins that the written rows know. The caller holds the lock on the flow's row."""
    keep_arguments(tx, head.id)
    if tx.execute(NOTE, {"of_flow": head.id}).rowcount:
        note_start(tx, head, None)


def note_start(tx: Connection, head: Row[Any], of_crawl: datetime | None) -> None:
    """Write the flow's first start: its first begin, or the start of a crawl."""
    if head.started_at is None:
        tx.execute(FIRST_START, {"of_flow": head.id, "of_crawl": of_crawl})


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
