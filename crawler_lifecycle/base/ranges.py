"""Task numbers as compact text, for the inputs and results of activities: `0-3,7` means 0, 1, 2, 3 and 7."""

from collections.abc import Iterable, Iterator


def to_ranges(numbers: Iterable[int]) -> str:
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in _spans(numbers))


def from_ranges(text: str) -> list[int]:
    numbers: list[int] = []
    for span in filter(None, text.split(",")):
        first, _, last = span.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


def _spans(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last number of every gapless span."""
    ordered = sorted(set(numbers))
    if not ordered:
        return
    first = last = ordered[0]
    for number in ordered[1:]:
        if number != last + 1:
            yield first, last
            first = number
        last = number
    yield first, last
