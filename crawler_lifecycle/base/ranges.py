"""Task numbers as compact text, for the inputs and results of activities: `0-3,7` means 0, 1, 2, 3 and 7.

Numbers with values are ranges by value: `1:0-3,7;2:5` means 1 for 0, 1, 2, 3 and 7, and 2 for 5.
"""

from collections.abc import Iterable, Iterator, Mapping


def to_ranges(numbers: Iterable[int]) -> str:
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in _spans(numbers))


def from_ranges(text: str) -> list[int]:
    numbers: list[int] = []
    for span in filter(None, text.split(",")):
        first, _, last = span.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


def to_ranges_by_value(values: Mapping[int, int]) -> str:
    numbers: dict[int, list[int]] = {}
    for number, value in values.items():
        numbers.setdefault(value, []).append(number)
    return ";".join(f"{value}:{to_ranges(numbers[value])}" for value in sorted(numbers))


def from_ranges_by_value(text: str) -> dict[int, int]:
    parts = (part.partition(":") for part in filter(None, text.split(";")))
    return {number: int(value) for value, _, ranges in parts for number in from_ranges(ranges)}


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
