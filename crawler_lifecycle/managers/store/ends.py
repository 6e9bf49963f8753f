"""Ends without the manager's code: of attempts when a stop closes a failing manager, of managers with their flow."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, bindparam, exists, or_, select, update

from crawler_lifecycle.database.flow_schema import flow_members
from crawler_lifecycle.database.manager_schema import manager_attempts, manager_items, managers
from crawler_lifecycle.flows.rules.words import DRAINED
from crawler_lifecycle.managers.store.locks import COLUMNS, OF_MANAGER, Managed
from crawler_lifecycle.managers.store.rows import NOT_STARTED
from crawler_lifecycle.model.manager_items import ItemState, Verdict

members, items, attempts = flow_members.c, manager_items.c, manager_attempts.c
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
