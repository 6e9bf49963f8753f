"""Ends without the manager's code: of attempts when a stop closes a failing manager, of managers with their flow.

A crawl may also end after its manager's close, without a reaction. Readings show these late ends.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, bindparam, exists, func, not_, or_, select, update

from crawler_lifecycle.database.flow_schema import flow_members, flows
from crawler_lifecycle.database.manager_schema import manager_attempts, manager_items, managers
from crawler_lifecycle.flows.rules.words import DRAINED
from crawler_lifecycle.managers.store.locks import COLUMNS, OF_ATTEMPTS, OF_MANAGER, Managed
from crawler_lifecycle.managers.store.rows import NOT_STARTED
from crawler_lifecycle.model.manager_items import ItemState, Verdict

CANCELLED_CRAWL = "cancelled"  # outcome of a stopped crawl
items, attempts = manager_items.c, manager_attempts.c
IS_LATE = and_(attempts.reacted_at.is_(None), attempts.ended_at.is_not(None))
IS_CANCELLED = func.coalesce(attempts.outcome, "") == CANCELLED_CRAWL
BY_END = {
    ItemState.CANCELLED: IS_CANCELLED,
    ItemState.FAILED: and_(not_(IS_CANCELLED), attempts.is_failed),
    ItemState.COMPLETED: and_(not_(IS_CANCELLED), not_(attempts.is_failed)),
}
ENDS = select(attempts.is_failed, IS_CANCELLED, func.count()).group_by(attempts.is_failed, IS_CANCELLED)
OF_A_MANAGER = ENDS.where(*OF_ATTEMPTS, IS_LATE)
OF_FLOWS = (
    select(flows.c.uid, attempts.is_failed, IS_CANCELLED, func.count())
    .join_from(managers, flows, flows.c.id == managers.c.flow)
    .join(manager_attempts, and_(attempts.flow == managers.c.flow, attempts.manager == managers.c.manager))
    .where(managers.c.closed_at.is_not(None), IS_LATE)
    .group_by(flows.c.uid, attempts.is_failed, IS_CANCELLED)
)
members = flow_members.c
IS_UNANSWERED = (
    attempts.reacted_at.is_(None),
    attempts.ended_at.is_not(None),
    attempts.is_failed == bindparam("of_failed"),
)
HAS_END = exists().where(
    attempts.flow == items.flow,
    attempts.manager == items.manager,
    attempts.number == items.number,
    attempts.attempt == items.attempt,
    *IS_UNANSWERED,
)
SETTLE_ITEMS = update(manager_items).where(*OF_MANAGER, items.state == ItemState.RUNNING, HAS_END)
SETTLE_ATTEMPTS = update(manager_attempts).where(
    attempts.flow == bindparam("of_flow"), attempts.manager == bindparam("of_manager"), *IS_UNANSWERED
)
CANCEL_WAITING = update(manager_items).where(*OF_MANAGER, items.state == ItemState.WAITING)
CANCELLED = {"state": ItemState.CANCELLED, "due": None, "problem": NOT_STARTED}
WITHOUT_CLOSE: Select[Any] = (
    select(*COLUMNS, members.state.label("member_state"), members.reason)
    .join(flow_members, and_(members.flow == managers.c.flow, members.number == managers.c.manager))
    .where(
        managers.c.flow == bindparam("of_flow"),
        or_(
            managers.c.closed_at.is_(None),
            managers.c.attempt != members.attempt,
            members.generation != members.attempt_generation,  # retried since the close
        ),
    )
    .with_for_update(of=managers)
)
SETTLED = (
    (False, Verdict.OK, ItemState.COMPLETED, "completed"),
    (True, Verdict.BAD, ItemState.FAILED, "failed"),
)


def ends_of(connection: Connection, manager: Row[Any]) -> dict[ItemState, int]:
    """Return the numbers of late ends by the state of the item. An open manager reacts to its ends."""
    if manager.closed_at is None:
        return {}
    rows = connection.execute(OF_A_MANAGER, {"of_flow": manager.flow, "of_manager": manager.manager})
    return {_state(is_failed=bool(failed), is_cancelled=bool(cancelled)): number for failed, cancelled, number in rows}


def ends_in_flows(connection: Connection, flow_uids: Collection[str]) -> dict[str, dict[str, int]]:
    """Return the numbers of late ends by the flow's uid and the state of the item."""
    ends: dict[str, dict[str, int]] = {}
    for uid, failed, cancelled, number in connection.execute(OF_FLOWS.where(flows.c.uid.in_(list(flow_uids)))):
        ends.setdefault(uid, {})[_state(is_failed=bool(failed), is_cancelled=bool(cancelled))] = number
    return ends


def shown_state(row: Row[Any], *, is_closed: bool) -> ItemState:
    """Return an item's state for people. `row`: the item with its last attempt."""
    state: ItemState = row.state
    if not is_closed or state is not ItemState.RUNNING or row.ended_at is None or row.reacted_at is not None:
        return state
    return _state(is_failed=row.is_failed, is_cancelled=row.outcome == CANCELLED_CRAWL)


def has_state(states: Collection[ItemState], *, is_closed: bool) -> ColumnElement[bool]:
    """Return the condition for items in these states for people, beside their last attempts."""
    if not is_closed:
        return items.state.in_(states)
    is_late = and_(items.state == ItemState.RUNNING, IS_LATE)
    ends = or_(*(BY_END[state] for state in states if state in BY_END)) if BY_END.keys() & set(states) else None
    as_on_record = and_(items.state.in_(states), not_(is_late))
    return as_on_record if ends is None else or_(as_on_record, and_(is_late, ends))


def settle_ends(mine: Managed) -> None:
    """Settle the items whose ends have no reaction, by the runs' own ends, so that the manager's numbers add up."""
    for is_failed, verdict, state, column in SETTLED:
        key = {**mine.bound, "of_failed": is_failed}
        mine.count(column, mine.tx.execute(SETTLE_ITEMS.values(state=state, due=None), key).rowcount)
        mine.tx.execute(SETTLE_ATTEMPTS.values(reacted_at=mine.at, verdict=verdict), key)


def cancel_waiting(mine: Managed) -> None:
    """Cancel the items that have not started. The manager's next beginning lets them wait again."""
    mine.count("cancelled", mine.tx.execute(CANCEL_WAITING.values(CANCELLED), mine.bound).rowcount)


def close_with_flow(tx: Connection, head: Row[Any], now: datetime) -> None:
    """Close the managers that end with their flow before a host could begin them: no item waits in an ended flow."""
    for row in tx.execute(WITHOUT_CLOSE, {"of_flow": head.id}).all():
        mine = Managed(tx, row, head.uid, now, head)
        cancel_waiting(mine)
        mine.close(DRAINED if row.reason == DRAINED else row.member_state)
        mine.save()


def _state(*, is_failed: bool, is_cancelled: bool) -> ItemState:
    if is_cancelled:
        return ItemState.CANCELLED
    return ItemState.FAILED if is_failed else ItemState.COMPLETED
