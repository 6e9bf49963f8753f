"""Generator: takes parameter sets from the author's generator into the ledger, page by page.

After another process has taken the manager over, the generator goes on from the last cursor. Without a cursor, the
generator is read from its beginning, and the ledger knows the former sets by their keys.
"""

import inspect
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from crawler_lifecycle.contract.managers import items
from crawler_lifecycle.contract.managers.turns import Begun, Page
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.managers.failures import AuthorsFailure
from crawler_lifecycle.managers.link import ManagerLink
from crawler_lifecycle.managers.parameters import FullJobParams, Item, full_params
from crawler_lifecycle.managers.requesting import KeyFunction, dedup_key, item_of

PHASE = "set_parameters_gen"
LARGEST_PAGE = 1000
MOST_PAGES = 50  # in a cycle: a generator of many known sets must not hold up the reactions to ends


class Generating(Protocol):
    """A manager with a generator."""

    spider: str | None
    dedup: bool | KeyFunction

    @property
    def link(self) -> ManagerLink: ...

    @property
    def begun(self) -> Begun: ...

    def set_parameters_gen(self) -> Iterable[Any]: ...

    def effective(self, params: FullJobParams) -> FullJobParams: ...

    def get_tags(self) -> list[str]: ...


class Generator:
    """The author's generator with its position."""

    def __init__(self, manager: Generating) -> None:
        begun = manager.begun
        self.is_exhausted = begun.is_exhausted
        self.is_cut = False  # whether the last pull ended before its time
        self._manager = manager
        self._on_record = begun.read
        self._cursor = begun.cursor
        self._position = 0 if begun.cursor is None else begun.read
        self._sets: Iterator[Any] | None = None

    async def pull(self, wanted: int) -> int:
        """Take parameter sets until so many new items are on record, or the generator ends. Return their number."""
        new, size, pages = 0, wanted, 0
        self.is_cut = False
        while not self.is_exhausted and new < wanted and not self.is_cut:
            numbers, is_reread = self._page(size)
            count = 0 if is_reread else sum(number is not None for number in numbers)
            new, pages = new + count, pages + 1
            size = min(LARGEST_PAGE, max(wanted - new, 1) if count else 2 * size)
            self.is_cut = pages >= MOST_PAGES and new < wanted
        return new

    @property
    def progress(self) -> str:
        """Place in a generator that is read again, for the flow's timeline."""
        return f"reads its generator again: {self._position} of {self._on_record} parameter sets"

    @property
    def is_reread(self) -> bool:
        return self._position < self._on_record

    def _page(self, size: int) -> tuple[tuple[int | None, ...], bool]:
        """Offer the next page. Author's code that raises keeps the sets that came before."""
        missing = self._on_record - self._position
        is_reread = missing > 0
        self._manager.link.enter(PHASE)
        failure: AuthorsFailure | None = None
        read: list[items.Item] = []
        ended = False
        try:
            for _ in range(min(missing, LARGEST_PAGE) if is_reread else min(size, LARGEST_PAGE)):
                read.append(self._item(next(self._opened())))  # noqa: PERF401 - a failure keeps the sets before
        except StopIteration:
            ended = True
        except LifecycleError:
            raise
        except Exception as error:  # noqa: BLE001 - author's code
            failure = AuthorsFailure(PHASE, None, error)
        self._position += len(read)
        offered = self._offer(read, is_reread=is_reread, ended=ended)
        if failure is not None:
            self._sets, self._position = None, 0 if self._cursor is None else self._on_record
            raise failure
        return offered, is_reread

    def _offer(self, read: list[items.Item], *, is_reread: bool, ended: bool) -> tuple[int | None, ...]:
        link = self._manager.link
        numbers: tuple[int | None, ...] = ()
        if read or (ended and not is_reread):
            page = Page(
                items=tuple(read),
                read=self._position,
                cursor=self._cursor,
                is_exhausted=ended and not is_reread,
                is_reread=is_reread,
            )
            numbers = link.offer(page).numbers
        if ended and is_reread:  # the generator is shorter than before
            link.offer(Page(read=self._on_record, cursor=self._cursor, is_exhausted=True))
        self._on_record = max(self._on_record, self._position)
        self.is_exhausted = ended
        return numbers

    def _opened(self) -> Iterator[Any]:
        if self._sets is None:
            method = self._manager.set_parameters_gen
            takes_cursor = "cursor" in inspect.signature(method).parameters
            self._sets = iter(method(cursor=self._cursor) if takes_cursor else method())  # type: ignore[call-arg]
        return self._sets

    def _item(self, yielded: Any) -> items.Item:
        """Return the item for a yielded dict. Author's own key decides about repeats, if the dict has one."""
        manager, own = self._manager, None
        if isinstance(yielded, Item):
            self._cursor = yielded.cursor
            yielded, own = yielded.params, yielded.key
        own = yielded.get("key", own)
        params = full_params(yielded, manager.spider)
        key = dedup_key(manager.effective(params), manager.dedup, own)
        return item_of(params, manager.get_tags(), items.Origin.GENERATOR, key)
