"""Requests by people for a manager's items.

A retry lets items wait again, page by page, as they were or with changed arguments, and an ended manager continue.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from pydantic import JsonValue
from sqlalchemy import Connection, Row, and_, bindparam, exists, func, insert, or_, select, update

from crawler_lifecycle.database.flow_schema import flow_appends
from crawler_lifecycle.database.manager_schema import manager_attempts, manager_items
from crawler_lifecycle.database.pages import pages
from crawler_lifecycle.database.transactions import reading, transaction
from crawler_lifecycle.errors import BadInput, Conflict
from crawler_lifecycle.flows.model.records import FlowAnswer, LeftOut
from crawler_lifecycle.flows.model.requests import AddItems, CancelItems, RetryItems, RetryMembers
from crawler_lifecycle.flows.model.turns import FILTERED_PROBLEM, UNREADABLE
from crawler_lifecycle.flows.rules.interventions import retry
from crawler_lifecycle.flows.store.door import Door, uid_of
from crawler_lifecycle.managers.authors.parameters import FullJobParams, check_parts
from crawler_lifecycle.managers.authors.requesting import request_of
from crawler_lifecycle.managers.store.locks import OF_ATTEMPTS, OF_MANAGER, Managed
from crawler_lifecycle.managers.store.readings import ManagerReadings, member_of
from crawler_lifecycle.managers.store.rows import ADDED, NOT_STARTED
from crawler_lifecycle.managers.store.selecting import (
    IS_NOT_FILTERED,
    NOT_CANCELLED,
    NOT_RETRIED,
    RETRIABLE,
    among,
    chosen,
    left_out,
    managed_by,
    refuse_unknown,
    wake_and_answer,
)
from crawler_lifecycle.model.flow_states import MemberState
from crawler_lifecycle.model.manager_items import ItemState, Origin, Override
from crawler_lifecycle.model.requests import RunParameters, refusals_as_bad_input

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
AT_ONCE = 500  # items in a transaction: the flow stays locked for half a second at most
IS_UNSTARTED = and_(items.state == ItemState.CANCELLED, items.problem == NOT_STARTED)
PAGE = (
    select(items.place, items.number)
    .where(
        *OF_MANAGER,
        items.state == bindparam("of_state"),
        or_(items.state == ItemState.FAILED, items.problem == NOT_STARTED),
        or_(
            items.place > bindparam("place"),
            and_(items.place == bindparam("place"), items.number > bindparam("number")),
        ),
    )
    .order_by(items.place, items.number)
    .limit(bindparam("most"))
)
WITHOUT_REQUEST = select(items.number, items.state, items.problem).where(items.request.is_(None)).order_by(items.number)
NOT_STARTED_ITEMS = select(func.count()).where(*OF_MANAGER, IS_UNSTARTED)
OPEN_ATTEMPTS = select(exists().where(*OF_ATTEMPTS, manager_attempts.c.reacted_at.is_(None)))
STOPS = ("drained", "cancelled", "left")  # close reasons by people


def repeat(mine: Managed, _: RetryItems, numbers: Collection[int], states: Collection[ItemState]) -> int:
    """Let the items wait again with a statement for each state. Return their number."""
    total = 0
    for state in states:  # waiting items come first: otherwise they would include the items of the previous states
        again = chosen(update(manager_items), mine, numbers, [state]).where(items.request.is_not(None))
        count = mine.tx.execute(again.values(AGAIN)).rowcount
        if state in RETRIABLE:
            mine.count(RETRIABLE[state], -count)
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
    override = _corrected(row.override, request.arguments, request.spider)
    try:
        if row.request is None:
            check_parts(override)
            new = request_of(cast("FullJobParams", override), ())
        else:
            new = _renewed(row.request, request.arguments, request.spider)
    except BadInput as error:
        problem = f"item {row.number}: {error.message}"
        if row.request is None and error.field.partition(".")[0] not in CORRECTED:
            problem += "; a correction changes the crawler and the arguments alone: cancel the item to dismiss it"
        raise BadInput("jobs", problem) from error
    return {"of_number": row.number, "new_override": override, "new_request": new}


def _corrected(override: Override, arguments: Mapping[str, JsonValue] | None, spider: str | None) -> Override:
    """Return the item's parameters with new arguments over the previous arguments, and with the crawler."""
    former = override.get("spider_args")
    changed: Override = {**override}
    if arguments:
        changed["spider_args"] = {**(former if isinstance(former, dict) else {}), **arguments}
    if spider is not None:
        changed["spider"] = spider
    return changed


def _renewed(request: RunParameters, arguments: Mapping[str, JsonValue] | None, spider: str | None) -> RunParameters:
    """Return the item's request with new arguments over the previous arguments, and with the crawler."""
    texts = {name: value if isinstance(value, str) else str(value) for name, value in (arguments or {}).items()}
    with refusals_as_bad_input():
        fields = request.model_dump(exclude_none=True)
        changed = {**fields, "arguments": {**request.arguments, **texts}, "crawler": spider or request.crawler}
        return RunParameters.model_validate(changed)


@dataclass(frozen=True)
class Rest:
    """The rest of a request after its previous pages: items in later places, or with higher numbers."""

    place: int = 0
    number: int = 0
    is_unstarted: bool = False  # whether the rest has items that a close has cancelled, after the failed items
    count: int = 0  # items in the previous pages
    left_out: tuple[LeftOut, ...] = ()  # named items in the previous pages


class ManagerRetries(ManagerReadings):
    """The retries in `flows.ports.ledger.ManagerDoors`."""

    def retry_items(self, flow: str, request: RetryItems) -> FlowAnswer:
        """Renew the items page by page, with a transaction for each page.

        The last page lets an ended manager continue. A request that dies before is repeated: renewed items stay
        renewed. Arguments that an item refuses change no item.
        """
        if request.has_corrections:
            self._check_corrections(flow, request)
        answer, rest = self._retry_page(flow, request, Rest())
        while rest is not None:
            answer, rest = self._retry_page(flow, request, rest)
        return answer

    @reading
    def _check_corrections(self, connection: Connection, flow: str, request: RetryItems) -> None:
        """Raise BadInput if an item refuses the corrections: pages before its page would be stored."""
        number = self.number(connection, uid_of(connection, flow))
        manager = member_of(connection, number, request.manager).number
        of_manager = REQUESTS.filter_by(flow=number, manager=manager)
        query = among(of_manager, request.numbers, _states_for(request))
        if request.numbers is None:
            query = of_manager.where(or_(items.state == ItemState.FAILED, IS_UNSTARTED))
        for row in connection.execute(query.execution_options(yield_per=AT_ONCE)):
            renewal(row, request)

    @transaction
    def _retry_page(self, tx: Connection, flow: str, request: RetryItems, rest: Rest) -> tuple[FlowAnswer, Rest | None]:
        """Renew a page. Return the answer for all pages so far, and the rest of the request."""
        door = self.open_by_id(tx, flow, request)
        mine = managed_by(door, request)
        if mine.row.closed_at is not None and door.ledger.members[mine.row.manager].state is MemberState.EXECUTING:
            raise Conflict(f"the manager of flow {flow!r} is ending: retry in a moment")
        if rest == Rest():
            refuse_unknown(mine, request.numbers)
            _refuse_uncorrected(mine, request)
        numbers, further = _failed(mine, request, rest) if request.numbers is None else _given(request.numbers, rest)
        unchanged = left_out(mine, None if request.numbers is None else numbers, NOT_RETRIED)
        let_wait = renew if request.has_corrections else repeat
        count = let_wait(mine, request, numbers, _states_for(request))
        total = rest.count + count
        if further is None and request.numbers is None and mine.row.closed_at is not None:
            total += tx.scalar(NOT_STARTED_ITEMS, mine.bound) or 0  # the next beginning lets them wait again
        goes_on = further is None and (total > 0 or (request.numbers is None and _has_more(mine)))
        is_reopened = goes_on and _reopen(door, mine)
        total_if_last = total if further is None else None
        answer = wake_and_answer(door, mine, "items retried", count, total_if_last, is_reopened=is_reopened)
        answer = answer.model_copy(update={"left_out": rest.left_out + unchanged, "reopened": is_reopened})
        return answer, further and replace(further, count=total, left_out=answer.left_out)


class SqlManagerDoors(ManagerRetries):
    """The requests in `flows.ports.ledger.ManagerDoors`."""

    @transaction
    def add_items(self, tx: Connection, flow: str, request: AddItems) -> FlowAnswer:
        door = self.open_by_id(tx, flow, request)
        mine = managed_by(door, request)
        key = {"flow": door.head.id, "key": request.key}
        if tx.scalar(select(flow_appends.c.key).filter_by(**key)) is not None:
            return door.answer(0, changed=False)
        if door.ledger.members[mine.row.manager].state.is_final or mine.row.closed_at is not None:
            raise Conflict(f"the manager of flow {flow!r} has ended: retry its items, or start another flow")
        tx.execute(insert(flow_appends), {**key, "made_at": door.at})
        mine.add([item.model_copy(update={"origin": Origin.ADDED}) for item in request.items])
        return wake_and_answer(door, mine, "items added", len(request.items), len(request.items))

    @transaction
    def cancel_items(self, tx: Connection, flow: str, request: CancelItems) -> FlowAnswer:
        door = self.open_by_id(tx, flow, request)
        mine = managed_by(door, request)
        refuse_unknown(mine, request.numbers)
        unchanged = left_out(mine, request.numbers, NOT_CANCELLED)
        # items cancelled by a close come first: the statements below cancel further items
        kept = chosen(update(manager_items), mine, request.numbers, [ItemState.CANCELLED])
        count: int = tx.execute(kept.where(items.problem == NOT_STARTED).values(problem=None)).rowcount
        waiting = chosen(update(manager_items), mine, request.numbers, [ItemState.WAITING])
        new: int = tx.execute(waiting.values(state=ItemState.CANCELLED, due=None)).rowcount
        if request.numbers is not None:
            refused = chosen(update(manager_items), mine, request.numbers, [ItemState.REFUSED]).where(IS_NOT_FILTERED)
            dismissed: int = tx.execute(refused.values(state=ItemState.CANCELLED)).rowcount
            mine.count("refused", -dismissed)
            new += dismissed
        mine.count("cancelled", new)
        count += new
        answer = wake_and_answer(door, mine, "items cancelled", count, count)
        return answer.model_copy(update={"left_out": unchanged})


def _refuse_uncorrected(mine: Managed, request: RetryItems) -> None:
    """Raise BadInput if an item can get no request: the manager's own filter left the item out, or its parameters would
    be refused again."""
    if request.numbers is None:
        return
    for item in mine.tx.execute(chosen(WITHOUT_REQUEST, mine, request.numbers, [*RETRIABLE])):
        if item.problem == FILTERED_PROBLEM:
            raise BadInput("jobs", f"the manager's own filter left out item {item.number}: leave the number out, too")
        if not request.has_corrections:
            refused = "is refused" if item.state is ItemState.REFUSED else "was refused"
            advice = "correct its crawler or its arguments"
            raise BadInput("jobs", f"item {item.number} {refused}: {item.problem}; {advice}")


def _states_for(request: RetryItems) -> Collection[ItemState]:
    """Return the states of renewed items."""
    return [ItemState.FAILED] if request.numbers is None else [ItemState.WAITING, *RETRIABLE]


def _given(numbers: Collection[int], rest: Rest) -> tuple[Sequence[int], Rest | None]:
    """Return the next of the given numbers, and the rest without them."""
    page = [number for number in sorted(numbers) if number > rest.number]
    further = replace(rest, number=page[AT_ONCE - 1]) if len(page) > AT_ONCE else None
    return page[:AT_ONCE], further


def _failed(mine: Managed, request: RetryItems, rest: Rest) -> tuple[Sequence[int], Rest | None]:
    """Return the numbers of the next failed items, and the rest after them.

    With corrections, items cancelled by a close before their start come after the failed items.
    """
    state = ItemState.CANCELLED if rest.is_unstarted else ItemState.FAILED
    place = {"of_state": state, "place": rest.place, "number": rest.number, "most": AT_ONCE + 1}
    page = list(mine.tx.execute(PAGE, {**mine.bound, **place}))
    last = page[AT_ONCE - 1] if len(page) > AT_ONCE else None
    further = None
    if last is not None:
        further = replace(rest, place=last.place, number=last.number)
    elif request.has_corrections and not rest.is_unstarted:
        further = replace(rest, place=-1, number=0, is_unstarted=True)
    return [row.number for row in page[:AT_ONCE]], further


def _has_more(mine: Managed) -> bool:
    """Return whether the manager has closed before its generator, its periodic job or its crawls have ended."""
    row = mine.row
    if row.closed_at is None:  # the member has ended before the manager began
        return True
    is_cut = not row.is_exhausted and (row.read_sets > 0 or row.close_reason in STOPS)  # one job has no generator
    return is_cut or bool(mine.tx.scalar(OPEN_ATTEMPTS, mine.bound))


def _reopen(door: Door, mine: Managed) -> bool:
    """Let an ended manager continue, in a further attempt of its member. Return whether the manager had ended."""
    row = door.ledger.members[mine.row.manager]
    if row.state.is_final:
        door.apply(retry(door.ledger, RetryMembers(paths=(row.path,), completed=True), door.at))
    return row.state.is_final
