"""Renewals: a manager's items wait again, as they were or with changed arguments."""

from collections.abc import Collection
from typing import Any, cast

from sqlalchemy import Row, bindparam, select, update

from crawler_lifecycle.database.manager_schema import manager_items
from crawler_lifecycle.database.pages import pages
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.model.item_requests import RetryItems
from crawler_lifecycle.flows.model.turns import UNREADABLE
from crawler_lifecycle.flows.rules.manager_renewing import corrected, renewed
from crawler_lifecycle.managers.authors.parameters import FullJobParams, check_parts
from crawler_lifecycle.managers.authors.requesting import request_of
from crawler_lifecycle.managers.store.locks import OF_MANAGER, Managed
from crawler_lifecycle.managers.store.rows import ADDED
from crawler_lifecycle.managers.store.selecting import IS_NOT_FILTERED, SETTLED, chosen
from crawler_lifecycle.model.manager_items import ItemState

items = manager_items.c
AGAIN: dict[str, Any] = {
    "state": ItemState.WAITING,
    "place": ADDED,
    "due": None,
    "problem": None,
    "generation": items.generation + 1,
    "tries": 0,
}
RENEW = (
    update(manager_items)
    .where(*OF_MANAGER, items.number == bindparam("of_number"))
    .values(override=bindparam("new_override"), request=bindparam("new_request"))
)
REQUESTS = select(items.number, items.override, items.request, items.problem).where(IS_NOT_FILTERED)
CORRECTED = ("spider", "spider_args", "crawler", "arguments")  # fields that a retry can change


def repeat(mine: Managed, _: RetryItems, numbers: Collection[int], states: Collection[ItemState]) -> int:
    """Let the items wait again with a statement for each state. Return their number."""
    total = 0
    for state in states:  # waiting items come first: otherwise they would include the items of the previous states
        again = chosen(update(manager_items), mine, numbers, [state]).where(items.request.is_not(None))
        count = mine.tx.execute(again.values(AGAIN)).rowcount
        if state in SETTLED:
            mine.count(SETTLED[state], -count)
        total += count
    return total


def renew(mine: Managed, request: RetryItems, numbers: Collection[int], states: Collection[ItemState]) -> int:
    """Let the items wait again with changed arguments. Return their number.

    Items that a close has cancelled get the arguments, and wait again at the manager's next beginning.
    """
    unstarted = [] if request.numbers is not None else [ItemState.CANCELLED]
    query = chosen(REQUESTS, mine, numbers, [*states, *unstarted])
    rows = mine.tx.execute(query.with_for_update()).all()
    for page in pages(rows):
        mine.tx.execute(RENEW, [{**mine.bound, **renewal(row, request)} for row in page])
    return repeat(mine, request, numbers, states)


def renewal(row: Row[Any], request: RetryItems) -> dict[str, Any]:
    """Return the corrected values of an item. BadInput for corrections without a request."""
    if UNREADABLE in row.override:
        advice = "cancel the item, and add its parameters anew"
        raise BadInput("jobs", f"item {row.number} keeps its wrong parameters ({row.problem}): {advice}")
    override = corrected(row.override, request.arguments, request.spider)
    try:
        if row.request is None:
            check_parts(override)
            new = request_of(cast("FullJobParams", override), ())
        else:
            new = renewed(row.request, request.arguments, request.spider)
    except BadInput as error:
        problem = f"item {row.number}: {error.message}"
        if row.request is None and error.field.partition(".")[0] not in CORRECTED:
            problem += "; a correction changes the crawler and the arguments alone: cancel the item to dismiss it"
        raise BadInput("jobs", problem) from error
    return {"of_number": row.number, "new_override": override, "new_request": new}
