"""Steps of people's requests for a manager's items: lock the manager, choose items, wake the manager and answer."""

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from sqlalchemy import Select, Update, insert, or_, select

from crawler_lifecycle.base.words import counted
from crawler_lifecycle.database.manager_schema import manager_items, managers
from crawler_lifecycle.errors import NotFound
from crawler_lifecycle.flows.model.records import FlowAnswer, LeftOut
from crawler_lifecycle.flows.model.requests import ItemsRequest
from crawler_lifecycle.flows.model.turns import FILTERED_PROBLEM
from crawler_lifecycle.flows.store.door import Door
from crawler_lifecycle.managers.store.life import beginning
from crawler_lifecycle.managers.store.locks import LOCK, Managed
from crawler_lifecycle.managers.store.readings import member_of
from crawler_lifecycle.model.manager_items import ItemState

OF_CLOSED = "was left by the closed manager: a retry without numbers lets the manager continue, and react to its end"
BY_FILTER = "was left out by the manager's own filter"
# why a retry, or a cancel, leaves a named item out
NOT_RETRIED = {
    ItemState.RUNNING: "is running: a retry is for items that have ended",
    ItemState.COMPLETED: "is completed already: a retry is for items that failed, were cancelled or refused",
}
NOT_CANCELLED = {
    ItemState.RUNNING: "is running: a stop of its run ends the crawl",
    ItemState.COMPLETED: "is completed already",
    ItemState.FAILED: "has failed already",
}
items = manager_items.c
# columns that count the manager's items in the states from which a retry brings items back
RETRIABLE = {ItemState.FAILED: "failed", ItemState.CANCELLED: "cancelled", ItemState.REFUSED: "refused"}
# items refused by the manager's own filter are no failures, and stay
IS_NOT_FILTERED = or_(items.problem.is_(None), items.problem != FILTERED_PROBLEM)
S = TypeVar("S", Update, Select[Any])


def left_out(mine: Managed, numbers: Collection[int] | None, reasons: Mapping[ItemState, str]) -> tuple[LeftOut, ...]:
    """Return the named items with a state among the reasons, and the items that the manager's own filter refused."""
    if numbers is None:
        return ()
    if mine.row.closed_at is not None:
        reasons = {**reasons, ItemState.RUNNING: OF_CLOSED}
    named = (
        select(items.number, items.state, items.problem).filter_by(**mine.key).where(items.number.in_(sorted(numbers)))
    )
    return tuple(
        LeftOut(job=str(item.number), reason=reasons.get(item.state, BY_FILTER))
        for item in mine.tx.execute(named.order_by(items.number))
        if item.state in reasons or (item.state is ItemState.REFUSED and item.problem == FILTERED_PROBLEM)
    )


def managed_by(door: Door, request: ItemsRequest) -> Managed:
    """Lock the manager. A manager that no host has begun yet gets its row here: to lock, and to count the items."""
    number = member_of(door.tx, door.head.id, request.manager).number
    key = {"of_flow": door.head.id, "of_manager": number}
    row = door.tx.execute(LOCK, key).one_or_none()
    if row is None:
        # incarnation 0: the first host's beginning turns it into 1
        unbegun = {"attempt": 0, "token": "", "child": "", **beginning(door.at), "incarnation": 0}
        door.tx.execute(insert(managers), {"flow": door.head.id, "manager": number, **unbegun})
        row = door.tx.execute(LOCK, key).one()
    return Managed(door.tx, row, door.head.uid, door.at, door.head)


def refuse_unknown(mine: Managed, numbers: Collection[int] | None) -> None:
    if numbers is None:
        return
    known = mine.tx.scalars(select(items.number).filter_by(**mine.key).where(items.number.in_(sorted(numbers))))
    if unknown := set(numbers) - set(known):
        raise NotFound(f"the manager has no item {min(unknown)}")


def chosen(statement: S, mine: Managed, numbers: Collection[int] | None, states: Collection[ItemState]) -> S:
    """Return the statement for the manager's items with these states. `numbers`: the named items; None: all items."""
    return among(statement.filter_by(**mine.key), numbers, states)


def among(statement: S, numbers: Collection[int] | None, states: Collection[ItemState]) -> S:
    """Return the statement for items with these states, of whatever manager the statement has."""
    statement = statement.where(items.state.in_(list(states)))
    return statement if numbers is None else statement.where(items.number.in_(sorted(numbers)))


def wake_and_answer(
    door: Door, mine: Managed, event: str, changed: int, total: int | None, *, is_reopened: bool = False
) -> FlowAnswer:
    """Wake the manager if items were changed in this transaction; write the event, and return the answer.

    `total`: items changed by the whole request; None: further pages follow, and the last page has event and answer.
    """
    if changed:
        mine.count("items_door")  # the manager's host compares the number, and wakes the manager
        mine.save()
    if total:
        door.log(event, counted(total, "item"))
    elif is_reopened:
        door.log(event, "no item; the manager continues with all that it has not done")
    return door.answer(total or 0, changed=bool(total) or is_reopened)
