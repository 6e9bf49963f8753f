"""Results from a sub-workflow for a step's context: a mapping loads the results page by page."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from crawler_lifecycle.flows.rules.contexts import Source

PAGE = 50  # results in a single reading, if they are small

# from members' numbers to results, for as many numbers as fit into a page; None without a result
Load = Callable[[Collection[int]], Mapping[int, Any]]


class Results(Mapping[str, Any]):
    """Results by name, in the members' order. A member without a result has None; a sub-workflow is a mapping again.

    Only the last page is kept in memory: ten thousand large results would not fit.
    """

    def __init__(self, sources: Mapping[str, Source], load: Load) -> None:
        self._sources = sources
        self._load = load
        self._numbers = [number for number in sources.values() if isinstance(number, int)]
        self._place_of = {number: place for place, number in enumerate(self._numbers)}
        self._inner = {name: Results(inner, load) for name, inner in sources.items() if not isinstance(inner, int)}
        self._page: Mapping[int, Any] = {}
        self._are_large = False

    def __getitem__(self, name: str) -> Any:
        source = self._sources[name]
        if not isinstance(source, int):
            return self._inner[name]
        page = self._page
        if source not in page:
            page = self._page = {}  # `_page_with` says why
            self._page = page = self._page_with(source)
        return page.get(source)

    def _page_with(self, number: int) -> Mapping[int, Any]:
        """Load small results by aligned pages, in any order. Large results come from the number on."""
        place = self._place_of[number]
        start = place if self._are_large else place - place % PAGE
        wanted = self._numbers[start : start + PAGE]
        page = self._load(wanted)
        self._are_large = len(page) < len(wanted)
        if number not in page:
            page = {}  # two large pages at once would take twice the memory
            page = self._load(self._numbers[place : place + PAGE])
        return page

    def __contains__(self, name: object) -> bool:
        return name in self._sources

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)

    def __repr__(self) -> str:
        return repr(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return all results in plain dicts."""
        return {name: value.to_dict() if isinstance(value, Results) else value for name, value in self.items()}
