"""Late ends: crawls have ended after their manager's close, without a reaction. Readings show these ends."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, func, not_, or_, select

from crawler_lifecycle.database.flow_schema import flows
from crawler_lifecycle.database.manager_schema import manager_attempts, manager_items, managers
from crawler_lifecycle.managers.store.locks import OF_ATTEMPTS
from crawler_lifecycle.model.manager_items import ItemState

CANCELLED = "cancelled"  # outcome of a stopped crawl
items, attempts = manager_items.c, manager_attempts.c
IS_LATE = and_(attempts.reacted_at.is_(None), attempts.ended_at.is_not(None))
IS_CANCELLED = func.coalesce(attempts.outcome, "") == CANCELLED
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
    return _state(is_failed=row.is_failed, is_cancelled=row.outcome == CANCELLED)


def has_state(states: Collection[ItemState], *, is_closed: bool) -> ColumnElement[bool]:
    """Return the condition for items in these states for people, beside their last attempts."""
    if not is_closed:
        return items.state.in_(states)
    is_late = and_(items.state == ItemState.RUNNING, IS_LATE)
    ends = or_(*(BY_END[state] for state in states if state in BY_END)) if BY_END.keys() & set(states) else None
    as_on_record = and_(items.state.in_(states), not_(is_late))
    return as_on_record if ends is None else or_(as_on_record, and_(is_late, ends))


def _state(*, is_failed: bool, is_cancelled: bool) -> ItemState:
    if is_cancelled:
        return ItemState.CANCELLED
    return ItemState.FAILED if is_failed else ItemState.COMPLETED
