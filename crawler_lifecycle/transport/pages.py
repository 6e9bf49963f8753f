"""`Page`: a part from a long list, with the next part's place."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
Place = TypeVar("Place")


@dataclass(frozen=True, slots=True)
class Page(Generic[T, Place]):
    """`next` is the next page's place; None for the last page."""

    items: Sequence[T]
    next: Place | None


def every(read: Callable[[Place | None], Page[T, Place]]) -> Iterator[T]:
    """Yield all pages' items. `read` returns the page at a place; None: the first page."""
    place: Place | None = None
    while True:
        page = read(place)
        yield from page.items
        place = page.next
        if place is None:
            return
