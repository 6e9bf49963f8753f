"""Ends of a manager's attempts that get no reaction: a stop closes a manager whose code fails."""

from sqlalchemy import bindparam, exists, update

from crawler_lifecycle.adapters.sql.manager_locks import OF_MANAGER, Managed
from crawler_lifecycle.adapters.sql.manager_schema import manager_attempts, manager_items
from crawler_lifecycle.contract.managers.items import ItemState
from crawler_lifecycle.contract.managers.turns import Verdict

items, attempts = manager_items.c, manager_attempts.c
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
