"""Items of a crawl manager before their start: stored from its generator's pages, chosen in order, or delayed.

The generator yields parameter sets; a set becomes an item unless it repeats an earlier one.
"""

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, bindparam, or_, select, update

from crawler_lifecycle.database.manager_schema import manager_items
from crawler_lifecycle.database.pages import pages
from crawler_lifecycle.database.transactions import reading, transaction
from crawler_lifecycle.errors import Conflict
from crawler_lifecycle.flows.model.turns import Offered, Page
from crawler_lifecycle.flows.store.locks import LOCKED
from crawler_lifecycle.managers.ports import ManagerRef, Setbacks
from crawler_lifecycle.managers.store.locks import OF_MANAGER, Managed, OnManagers
from crawler_lifecycle.managers.store.rows import DELAYED, place_of, waiting_of
from crawler_lifecycle.model.manager_items import Item, ItemState, Waiting

items = manager_items.c
MAY_START = (
    *OF_MANAGER,
    items.state == ItemState.WAITING,
    or_(items.due.is_(None), items.due <= bindparam("now")),
)
# in the order of the choice: by place (`rows` has the places), then by number
WAITING = select(manager_items).where(*MAY_START).order_by(items.place, items.number).limit(bindparam("most"))
NEXT_WAITING = WAITING.where(
    or_(items.place > bindparam("place"), (items.place == bindparam("place")) & (items.number > bindparam("number")))
)
DELAY = update(manager_items).where(
    *OF_MANAGER, items.state == ItemState.WAITING, items.number.in_(bindparam("numbers", expanding=True))
)


class ManagerSets(OnManagers):
    """The methods in `managers.ports.ManagerLedger` for items that have not started."""

    @transaction
    def offer(self, tx: Connection, ref: ManagerRef, page: Page, setbacks: Setbacks | None = None) -> Offered:
        """Store the page's sets, the generator's position after it, and the effects of the code until then.

        The host sends a page again after a lost answer: `read_sets` tells which of its sets are stored. A process that
        reads the generator again from its beginning sends pages with `is_reread`, which change no position.
        """
        mine = self.mine(tx, ref, flow=LOCKED)
        read_before = mine.row.read_sets
        already_read = read_before - (page.read - len(page.items))  # sets of the page that an earlier call has stored
        if already_read < 0:
            raise Conflict(f"{-already_read} parameter sets are missing before the page")
        if page.is_reread:
            numbers = _take_reread(mine, page.items)
        else:
            known = mine.known(page.items)
            numbers = [_number(item, known) for item in page.items[:already_read]]
            numbers += _take_new(mine, page.items[already_read:], known)
        has_new_end = not page.is_reread and page.is_exhausted != mine.row.is_exhausted
        if page.read > read_before or (page.read == read_before and has_new_end):
            # once: a repeated call has no second effects
            mine.values |= {"read_sets": page.read, "is_exhausted": page.is_exhausted}
            mine.values |= {"cursor": page.cursor, "digest": page.digest}
            mine.apply(page.effects)
        mine.take_setbacks(setbacks)
        mine.save()
        return Offered(numbers=tuple(numbers))

    @reading
    def waiting(
        self, connection: Connection, ref: ManagerRef, limit: int, *, after: Waiting | None = None
    ) -> list[Waiting]:
        row = self.fenced(connection, ref)
        key = {"of_flow": row.flow, "of_manager": row.manager, "now": self._db.clock(), "most": limit}
        if after is None:
            return [waiting_of(item) for item in connection.execute(WAITING, key)]
        key |= {"place": place_of(after), "number": after.number}
        return [waiting_of(item) for item in connection.execute(NEXT_WAITING, key)]

    @transaction
    def delay(self, tx: Connection, ref: ManagerRef, numbers: Collection[int]) -> None:
        mine = self.mine(tx, ref)
        for page in pages(sorted(numbers)):
            tx.execute(DELAY.values(place=DELAYED), {**mine.bound, "numbers": list(page)})


def _number(item: Item, known: dict[str, int]) -> int | None:
    return None if item.key is None else known.get(item.key)


def _take_new(mine: Managed, new: Sequence[Item], known: dict[str, int]) -> list[int | None]:
    """Add the parameter sets that are no repeats. Return their numbers, and None for repeats."""
    seen = set(known)
    fresh: list[Item] = []
    is_fresh: list[bool] = []
    for item in new:
        is_fresh.append(item.key is None or item.key not in seen)
        if is_fresh[-1]:
            fresh.append(item)
            if item.key is not None:
                seen.add(item.key)
    inserted = iter(mine.add(fresh) if fresh else [])
    mine.count("repeated", is_fresh.count(False))
    return [next(inserted) if is_new else None for is_new in is_fresh]


def _take_reread(mine: Managed, page: Sequence[Item]) -> list[int | None]:
    """Add the parameter sets with an unknown key. Return the numbers of all sets with keys.

    A generator that is read again, in another process, yields the stored sets once more before it goes on. Sets without
    a key were stored before and are skipped. If the generator now yields a, x, b where a, b were stored, the reading
    skips two sets, a and x. Then `_take_new` counts b as a repeat, so one repeat is subtracted now for x.
    """
    known = mine.known(page)
    unknown = {item.key: item for item in page if item.key is not None and item.key not in known}
    if unknown:
        known |= dict(zip(unknown, mine.add(list(unknown.values())), strict=True))
        mine.count("repeated", -len(unknown))
    return [_number(item, known) for item in page]
