"""Ledgers read from the database. Effective rows count the end of a run before the supervisor notes the end."""

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, Row, bindparam, select

from crawler_lifecycle.database.flow_schema import flow_members
from crawler_lifecycle.database.pages import PagedStatement, pages
from crawler_lifecycle.flows.rules.crawls import after_sight
from crawler_lifecycle.flows.rules.rows import TOP, GroupRow, Ledger, MemberRow
from crawler_lifecycle.flows.rules.states import effective
from crawler_lifecycle.flows.store.locks import locking
from crawler_lifecycle.flows.store.rows import (
    GROUP_COLUMNS,
    READ_MEMBER,
    flow_row,
    group_row,
    groups,
    member_row,
    members,
)
from crawler_lifecycle.flows.store.sights import attempt_ends, run_sights
from crawler_lifecycle.model.flow_states import MemberKind

OF_FLOW = members.flow == bindparam("of_flow")
ALL_MEMBERS = select(*READ_MEMBER).where(OF_FLOW)
ALL_GROUPS = select(*GROUP_COLUMNS).where(groups.flow == bindparam("of_flow"))
FEW = 100  # numbers in a statement built once
FEW_MEMBERS = ALL_MEMBERS.where(members.number.in_(bindparam("numbers", expanding=True))).order_by(members.number)
FEW_LOCKED = locking(FEW_MEMBERS, flow_members)
KEY = [members.flow, members.number]
MANY = select(*READ_MEMBER).order_by(members.number)
MANY_MEMBERS = PagedStatement(KEY, lambda _: MANY, locks=False)
MANY_LOCKED = PagedStatement(KEY, lambda _: locking(MANY, flow_members))
LOCK_MEMBERS = PagedStatement(KEY, lambda _: locking(select(members.number).order_by(members.number), flow_members))
IN_FLIGHT = select(members.number).where(OF_FLOW, members.in_flight).order_by(members.number)


def read_members(
    connection: Connection, flow: int, numbers: Collection[int], *, locked: bool = False
) -> dict[int, MemberRow]:
    """Return the members with these numbers; unknown numbers are left out. `locked`: lock the rows, by number."""
    statement = FEW_LOCKED if locked else FEW_MEMBERS
    if len(numbers) <= FEW:
        key = {"of_flow": flow, "numbers": sorted(numbers)}
        return _by_number(connection.execute(statement, key)) if numbers else {}
    rows: dict[int, MemberRow] = {}
    for page in pages(sorted(numbers)):
        read = MANY_LOCKED if locked else MANY_MEMBERS
        rows |= _by_number(read(connection, [(flow, number) for number in page]))
    return rows


def read_groups(connection: Connection, flow: int) -> dict[int, GroupRow]:
    """Return all groups, the top level included."""
    rows = (group_row(values) for values in connection.execute(ALL_GROUPS, {"of_flow": flow}))
    return {TOP: GroupRow(TOP), **{row.number: row for row in rows}}


def lock_in_flight(tx: Connection, flow: int) -> None:
    """Lock the members with an attempt under way. An end of a step then waits, so no door overwrites the end."""
    numbers = tx.scalars(IN_FLIGHT, {"of_flow": flow}).all()
    for page in pages(numbers):
        LOCK_MEMBERS(tx, [(flow, number) for number in page]).all()


def read_ledger(connection: Connection, head: Row[Any], numbers: Collection[int] | None = None) -> Ledger:
    """Return the flow's ledger with effective rows. `keys` of appends are left out. `numbers`: only these members."""
    if numbers is None:
        rows = _by_number(connection.execute(ALL_MEMBERS, {"of_flow": head.id}))
    else:
        rows = read_members(connection, head.id, numbers)
    return Ledger(
        flow_row(head),
        read_groups(connection, head.id),
        effective_rows(connection, head.id, head.uid, rows),
        last_member=head.last_member,
        last_group=head.last_group,
    )


def effective_rows(
    connection: Connection, flow: int, flow_uid: str, rows: Mapping[int, MemberRow]
) -> dict[int, MemberRow]:
    """Return the rows with the ends of crawls that the supervisor has not noted yet."""
    current = dict(rows)
    crawls = [row.number for row in rows.values() if row.kind is MemberKind.CRAWL and row.attempt]
    if not crawls:
        return current
    for end in attempt_ends(connection, flow, crawls):
        current[end.number] = effective(current[end.number], end)
    for seen in run_sights(connection, flow, flow_uid, crawls):
        current[seen.number] = after_sight(current[seen.number], seen)
    return current


def _by_number(rows: Any) -> dict[int, MemberRow]:
    return {values[0]: member_row(values) for values in rows}
