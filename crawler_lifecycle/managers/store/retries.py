"""Retries: people let a manager's items wait again, page by page, and an ended manager continue."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection, and_, bindparam, exists, func, or_, select

from crawler_lifecycle.database.manager_schema import manager_attempts, manager_items
from crawler_lifecycle.database.transactions import reading, transaction
from crawler_lifecycle.errors import BadInput, Conflict
from crawler_lifecycle.flows.model.answers import LeftOut
from crawler_lifecycle.flows.model.item_requests import RetryItems
from crawler_lifecycle.flows.model.requests import RetryMembers
from crawler_lifecycle.flows.model.turns import FILTERED_PROBLEM
from crawler_lifecycle.flows.ports.ledger import DoorAnswer
from crawler_lifecycle.flows.rules.renewing import retry
from crawler_lifecycle.flows.store.door import Door, uid_of
from crawler_lifecycle.managers.store.left_out import AFTER_RETRY, left_out
from crawler_lifecycle.managers.store.locks import OF_ATTEMPTS, OF_MANAGER, Managed
from crawler_lifecycle.managers.store.readings import ManagerReadings
from crawler_lifecycle.managers.store.renewing import REQUESTS, renew, renewal, repeat
from crawler_lifecycle.managers.store.rows import NOT_STARTED
from crawler_lifecycle.managers.store.selecting import SETTLED, chosen, managed_by, of_numbers, refuse_unknown, written
from crawler_lifecycle.managers.store.statuses import member_of
from crawler_lifecycle.model.flow_states import MemberState
from crawler_lifecycle.model.manager_items import ItemState

items = manager_items.c
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


@dataclass(frozen=True)
class Rest:
    """The rest of a request after its previous pages: items in later places, or with higher numbers."""

    place: int = 0
    number: int = 0
    is_unstarted: bool = False  # whether the rest has items that a close has cancelled, after the failed items
    count: int = 0  # items in the previous pages
    left_out: tuple[LeftOut, ...] = ()  # named items in the previous pages


class ManagerRetries(ManagerReadings):
    """The retries in `flows.ports.ManagerDoors`."""

    def retry_items(self, flow: str, request: RetryItems) -> DoorAnswer:
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
        chosen = of_numbers(of_manager, request.numbers, _states_for(request))
        if request.numbers is None:
            chosen = of_manager.where(or_(items.state == ItemState.FAILED, IS_UNSTARTED))
        for row in connection.execute(chosen.execution_options(yield_per=AT_ONCE)):
            renewal(row, request)

    @transaction
    def _retry_page(self, tx: Connection, flow: str, request: RetryItems, rest: Rest) -> tuple[DoorAnswer, Rest | None]:
        """Renew a page. Return the answer for all pages so far, and the rest of the request."""
        door = self.open_by_id(tx, flow, request)
        mine = managed_by(door, request)
        if mine.row.closed_at is not None and door.ledger.members[mine.row.manager].state is MemberState.EXECUTING:
            raise Conflict(f"the manager of flow {flow!r} is ending: retry in a moment")
        if rest == Rest():
            refuse_unknown(mine, request.numbers)
            _refuse_uncorrected(mine, request)
        numbers, further = _failed(mine, request, rest) if request.numbers is None else _given(request.numbers, rest)
        unchanged = left_out(mine, None if request.numbers is None else numbers, AFTER_RETRY)
        let_wait = renew if request.has_corrections else repeat
        count = let_wait(mine, request, numbers, _states_for(request))
        total = rest.count + count
        if further is None and request.numbers is None and mine.row.closed_at is not None:
            total += tx.scalar(NOT_STARTED_ITEMS, mine.bound) or 0  # the next beginning lets them wait again
        goes_on = further is None and (total > 0 or (request.numbers is None and _has_more(mine)))
        is_reopened = goes_on and _reopen(door, mine)
        answer = written(door, mine, "items retried", count, None if further else total, is_reopened=is_reopened)
        answer = replace(answer, left_out=rest.left_out + unchanged, reopened=is_reopened)
        return answer, further and replace(further, count=total, left_out=answer.left_out)


def _refuse_uncorrected(mine: Managed, request: RetryItems) -> None:
    """Raise BadInput if an item can get no request: the manager's own filter left the item out, or its parameters would
    be refused again."""
    if request.numbers is None:
        return
    for item in mine.tx.execute(chosen(WITHOUT_REQUEST, mine, request.numbers, [*SETTLED])):
        if item.problem == FILTERED_PROBLEM:
            raise BadInput("jobs", f"the manager's own filter left out item {item.number}: leave the number out, too")
        if not request.has_corrections:
            refused = "is refused" if item.state is ItemState.REFUSED else "was refused"
            advice = "correct its crawler or its arguments"
            raise BadInput("jobs", f"item {item.number} {refused}: {item.problem}; {advice}")


def _states_for(request: RetryItems) -> Collection[ItemState]:
    """Return the states of renewed items."""
    return [ItemState.FAILED] if request.numbers is None else [ItemState.WAITING, *SETTLED]


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
