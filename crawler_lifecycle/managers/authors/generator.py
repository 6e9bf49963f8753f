"""Take parameter sets from the author's generator into the ledger, page by page.

After another process has taken the manager over, the generator continues from the last cursor. Without a cursor, the
generator is read from its beginning. The ledger knows the previous sets by their keys. Sets without keys are left out
by their number: after a cursor, or from the beginning if their digest is the digest of the previous reading.
"""

import hashlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any, Protocol

from pydantic import JsonValue

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.errors import BadInput, Fenced, TemporaryError
from crawler_lifecycle.flows.model.turns import (
    FILTERED,
    FILTERED_PROBLEM,
    NO_EFFECTS,
    UNREADABLE,
    Begun,
    Effects,
    ManagerIntent,
    Page,
)
from crawler_lifecycle.managers.authors.collecting import Stats
from crawler_lifecycle.managers.authors.link import AuthorsFailure, GeneratorChanged, ManagerLink
from crawler_lifecycle.managers.authors.parameters import FullJobParams, Item, parameter_set
from crawler_lifecycle.managers.authors.requesting import KeyFunction, canonical, refused_key
from crawler_lifecycle.model import manager_items as items

PHASE = "set_parameters_gen"
LONGEST_REPR = 1000  # characters stored of a value that is no parameter set
LARGEST_PAGE = 1000
MOST_PAGES = 50  # in a cycle: a generator of many known or refused sets must not hold up the reactions to ends
MOST_TIME = timedelta(seconds=5)  # in a cycle: a slow generator must not hold up its sets, nor the reactions to ends
END = object()  # in place of a parameter set, after the last


class Generating(Protocol):
    """A manager with a generator."""

    spider: str | None
    dedup: bool | KeyFunction

    @property
    def link(self) -> ManagerLink: ...

    @property
    def begun(self) -> Begun: ...

    @property
    def stats(self) -> Stats: ...

    def set_parameters_gen(self) -> Iterable[Any]: ...

    def create_dupe_filter(self) -> Any: ...

    def take_effects(self) -> Effects: ...

    def has_only_ours(self, *names: str) -> bool: ...

    def repeat_key(self, params: FullJobParams, own: object = None) -> str | None: ...

    def item(self, params: FullJobParams, origin: items.Origin, key: str | None) -> items.Item: ...


class SetPlace(Message):
    """The author's last cursor, with the number of parameter sets before the cursor."""

    cursor: JsonValue
    position: int


def parameter_sets(method: Callable[..., Iterable[Any]], cursor: JsonValue) -> Iterator[Any]:
    """Return the iterator of a generator, from the cursor on if the generator takes cursors."""
    return iter(method(cursor=cursor) if takes_cursor(method) else method())


def takes_cursor(method: Callable[..., object]) -> bool:
    return "cursor" in inspect.signature(method).parameters


class Generator:
    """The author's generator with its position."""

    def __init__(self, manager: Generating) -> None:
        begun = manager.begun
        self.is_exhausted = begun.is_exhausted
        self.is_cut = False  # whether the present cycle has read enough before all wanted sets were there
        self._pages, self._began_at = 0, manager.link.now()  # of the present cycle
        self._manager = manager
        self._on_record = begun.read
        self._place = None if begun.cursor is None else SetPlace.model_validate(begun.cursor)
        self._digest_on_record = begun.digest
        has_filter = not manager.has_only_ours("create_dupe_filter")
        self._filter = manager.create_dupe_filter() if has_filter else None
        self._go_back()

    def begin_cycle(self) -> None:
        self.is_cut, self._pages, self._began_at = False, 0, self._manager.link.now()

    async def pull(self, wanted: int) -> int:
        """Take parameter sets until `wanted` new items may start, or the generator or the cycle ends.

        Return the number of these items. Repeats, and items with a problem, do not count.
        """
        new, size = 0, wanted
        while not self.is_exhausted and new < wanted and not self.is_cut:
            count = self._page(size)
            new, self._pages = new + count, self._pages + 1
            size = min(LARGEST_PAGE, max(wanted - new, 1) if count else 2 * size)
            self.is_cut = not self.is_exhausted and new < wanted and self._is_enough()
        return new

    def _is_enough(self) -> bool:
        """Return whether the cycle has to end: for the reactions to ends, or because people asked for it."""
        return self._pages >= MOST_PAGES or self._is_slow or self._manager.link.intent() is not ManagerIntent.RUN

    @property
    def _is_slow(self) -> bool:
        return self._manager.link.now() - self._began_at >= MOST_TIME

    @property
    def progress(self) -> str:
        """Place in a generator that is read again, for the flow's timeline."""
        return f"reads its generator again: {self._position} of {self._on_record} parameter sets"

    @property
    def is_reread(self) -> bool:
        return self._position < self._on_record

    def _go_back(self) -> None:
        """Begin at the last cursor, or at the generator's beginning."""
        self._sets: Iterator[Any] | None = None
        self._position = 0 if self._place is None else self._place.position
        self._digest = ""

    def _page(self, size: int) -> int:
        """Offer the next page, and return the number of its new items. A raise keeps the sets that came before."""
        missing = self._on_record - self._position
        is_reread = missing > 0
        self._manager.link.enter(PHASE)
        failure: AuthorsFailure | None = None
        read: list[items.Item] = []
        ended = False
        try:
            while len(read) < min(missing if is_reread else size, LARGEST_PAGE) and not (read and self._is_slow):
                yielded = next(self._opened(), END)
                if ended := yielded is END:
                    break
                place = self._place_behind(yielded, self._position + len(read) + 1)
                read.append(self._item(yielded))
                self._place = place  # after the set: a cursor before the set would lose a set whose item fails
        except (Fenced, TemporaryError):
            raise
        except Exception as error:  # noqa: BLE001 - author's code
            failure = AuthorsFailure(PHASE, None, error)
        self._position += len(read)
        self._check(read, missing, ended=ended)
        new = self._offer(read, is_reread=is_reread, ended=ended)
        if failure is not None:
            self._go_back()
            raise failure
        return new

    def _check(self, read: list[items.Item], missing: int, *, ended: bool) -> None:
        """Extend the digest; raise GeneratorChanged at the end of the previous reading if the sets have changed."""
        if self._manager.dedup is not False or self._place is not None:
            return
        for item in read:
            text = self._digest + (item.problem or canonical("parameters", item.override))
            self._digest = hashlib.sha256(text.encode()).hexdigest()
        if missing <= 0 or self._digest_on_record is None:
            return
        if (len(read) == missing and self._digest != self._digest_on_record) or (ended and len(read) < missing):
            raise GeneratorChanged(self._on_record)

    def _offer(self, read: list[items.Item], *, is_reread: bool, ended: bool) -> int:
        """Store the page. Return the number of new items that may start."""
        link, new = self._manager.link, 0
        cursor = None if self._place is None else self._place.model_dump()
        if read or (ended and not is_reread):
            page = Page(
                items=tuple(read),
                read=self._position,
                cursor=cursor,
                digest=self._digest or None,
                is_exhausted=ended and not is_reread,
                is_reread=is_reread,
                effects=NO_EFFECTS if is_reread else self._manager.take_effects(),  # the cursor has passed them
            )
            numbers = link.offer(page).numbers
            if filtered := sum(item.is_filtered and bool(number) for item, number in zip(read, numbers, strict=True)):
                self._manager.stats.note(FILTERED, filtered)
            if not is_reread:
                new = sum(bool(number) and item.problem is None for item, number in zip(read, numbers, strict=True))
        if ended and is_reread:  # the generator is shorter than before
            end = Page(read=self._on_record, cursor=cursor, digest=self._digest or None, is_exhausted=True)
            link.offer(end)
        self._on_record = max(self._on_record, self._position)
        self.is_exhausted = ended
        return new

    def _opened(self) -> Iterator[Any]:
        if self._sets is None:
            cursor = None if self._place is None else self._place.cursor
            self._sets = parameter_sets(self._manager.set_parameters_gen, cursor)
        return self._sets

    def _place_behind(self, yielded: Any, position: int) -> SetPlace | None:
        """Return the last cursor's place, after a yielded set with this number."""
        if not isinstance(yielded, Item) or yielded.cursor is None:
            return self._place
        if not takes_cursor(self._manager.set_parameters_gen):
            raise BadInput("cursor", f"{PHASE} yields cursors, and has no parameter `cursor` to continue from a cursor")
        return SetPlace(cursor=yielded.cursor, position=position)

    def _item(self, yielded: Any) -> items.Item:
        """Return the item for a yielded set. The author's own key decides about repeats, if an Item has one."""
        manager, parts = self._manager, parameter_set(yielded, self._manager.spider)
        if parts.problem is not None:
            override = {UNREADABLE: repr(parts.item.params)[:LONGEST_REPR]}
            return items.Item(override=override, problem=parts.problem)
        key = manager.repeat_key(parts.params, parts.key)
        item = manager.item(parts.params, items.Origin.GENERATOR, key)
        if item.problem is not None:
            return item.model_copy(update={"key": refused_key(parts.params, key)})
        if self._is_filtered(item):
            return item.model_copy(update={"problem": FILTERED_PROBLEM, "is_filtered": True})
        return item

    def _is_filtered(self, item: items.Item) -> bool:
        """Return whether the author's own filter has the set. Sets that are read again only fill the filter."""
        if self._filter is None or item.key is None:
            return False
        is_known = not self.is_reread and item.key in self._filter
        if not is_known:
            self._filter.add(item.key)
        return is_known
