"""Results from a sub-workflow for a step's context: a mapping loads the results page by page."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from crawler_lifecycle.domain.flows.contexts import Source

PAGE = 50  # results in a single reading, if they are small

# from members' numbers to results, for as many numbers as fit into a page; None without a result
Load = Callable[[Collection[int]], Mapping[int, Any]]


class Results(Mapping[str, Any]):
    """Results by name, in the members' order. A member without a result has None; a sub-workflow is a mapping again.

    Only the last page is kept in memory, from a value on that was read: ten thousand large results would not fit.
    """

    def __init__(self, sources: Mapping[str, Source], load: Load) -> None:
        self._sources = sources
        self._load = load
        self._numbers = [number for number in sources.values() if isinstance(number, int)]
        self._place_of = {number: place for place, number in enumerate(self._numbers)}
        self._inner = {name: Results(inner, load) for name, inner in sources.items() if not isinstance(inner, int)}
        self._page: Mapping[int, Any] = {}

    def __getitem__(self, name: str) -> Any:
        source = self._sources[name]
        if not isinstance(source, int):
            return self._inner[name]
        if source not in self._page:
            place = self._place_of[source]
            self._page = {}  # two large pages at once would take twice the memory
            self._page = self._load(self._numbers[place : place + PAGE])
        return self._page.get(source)

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
