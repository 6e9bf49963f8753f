"""Results from a sub-workflow for a step's context: a mapping loads the results page by page."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from crawler_lifecycle.domain.flows.contexts import Source

PAGE = 50  # results in a single reading

Load = Callable[[Collection[int]], Mapping[int, Any]]  # from members' numbers to their results


class Results(Mapping[str, Any]):
    """Results by name, in the members' order. A member without a result has None; a sub-workflow is a mapping again.

    Only the last page is kept in memory: ten thousand large results would not fit.
    """

    def __init__(self, sources: Mapping[str, Source], load: Load) -> None:
        self._sources = sources
        self._load = load
        numbers = [number for number in sources.values() if isinstance(number, int)]
        self._pages = [numbers[start : start + PAGE] for start in range(0, len(numbers), PAGE)]
        self._page_of = {number: page for page, part in enumerate(self._pages) for number in part}
        self._inner = {name: Results(inner, load) for name, inner in sources.items() if not isinstance(inner, int)}
        self._last: tuple[int | None, Mapping[int, Any]] = (None, {})  # page with its results

    def __getitem__(self, name: str) -> Any:
        source = self._sources[name]
        if not isinstance(source, int):
            return self._inner[name]
        page, values = self._last
        if page != self._page_of[source]:
            page = self._page_of[source]
            values = self._load(self._pages[page])
            self._last = (page, values)
        return values.get(source)

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
