"""Leaving out: named items without a change by a request, with the reasons."""

from collections.abc import Collection, Mapping

from sqlalchemy import select

from crawler_lifecycle.database.manager_schema import manager_items
from crawler_lifecycle.flows.model.answers import LeftOut
from crawler_lifecycle.flows.model.turns import FILTERED_PROBLEM
from crawler_lifecycle.managers.store.locks import Managed
from crawler_lifecycle.model.manager_items import ItemState

OF_CLOSED = "was left by the closed manager: a retry without numbers lets the manager continue, and react to its end"
BY_FILTER = "was left out by the manager's own filter"
AFTER_RETRY = {
    ItemState.RUNNING: "is running: a retry is for items that have ended",
    ItemState.COMPLETED: "is completed already: a retry is for items that failed, were cancelled or refused",
}
AFTER_CANCEL = {
    ItemState.RUNNING: "is running: a stop of its run ends the crawl",
    ItemState.COMPLETED: "is completed already",
    ItemState.FAILED: "has failed already",
}


def left_out(mine: Managed, numbers: Collection[int] | None, reasons: Mapping[ItemState, str]) -> tuple[LeftOut, ...]:
    """Return the named items with a state among the reasons, and the items that the manager's own filter refused."""
    if numbers is None:
        return ()
    items = manager_items.c
    if mine.row.closed_at is not None:
        reasons = {**reasons, ItemState.RUNNING: OF_CLOSED}
    chosen = (
        select(items.number, items.state, items.problem).filter_by(**mine.key).where(items.number.in_(sorted(numbers)))
    )
    return tuple(
        LeftOut(job=str(item.number), reason=reasons.get(item.state, BY_FILTER))
        for item in mine.tx.execute(chosen.order_by(items.number))
        if item.state in reasons or (item.state is ItemState.REFUSED and item.problem == FILTERED_PROBLEM)
    )
