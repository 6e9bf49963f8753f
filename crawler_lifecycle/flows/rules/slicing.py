"""Slices: several steps for a host in a single activity.

A slice saves an activity for every step, but its answer comes when all its steps have ended, and a single host has all
steps.
So steps go one by one if they are few or slow, or have dependents of their own.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from crawler_lifecycle.flows.rules.planner import Planner

MOST_IN_A_SLICE = 50
FEWEST_IN_A_SLICE = 8
SLICES = 8  # several hosts share a group's steps
SLOW_SECONDS = 1.0  # mean time in a function


class Slices:
    """Slices for starts. `note` learns how slow the functions are."""

    def __init__(self) -> None:
        self._spent: dict[str, tuple[int, float]] = {}  # steps and seconds by route

    def note(self, route: str, steps: int, seconds: float) -> None:
        earlier_steps, earlier_seconds = self._spent.get(route, (0, 0.0))
        self._spent[route] = (earlier_steps + steps, earlier_seconds + seconds)

    def cut(self, numbers: Sequence[int], planner: Planner) -> Iterator[list[int]]:
        """Yield the members with a common start. All members in a slice have the same group and route."""
        together: dict[tuple[int, str], list[int]] = {}
        for number in numbers:
            row = planner.rows[number]
            if planner.wiring.is_awaited_alone(number) or self.is_slow(row.route):
                yield [number]
            else:
                together.setdefault((row.group, row.route), []).append(number)
        for same in together.values():
            yield from _pages(same, _size(len(same), planner.turns.waiting))

    def is_slow(self, route: str) -> bool:
        """Return whether the route's functions take long."""
        steps, seconds = self._spent.get(route, (0, 0.0))
        return seconds > SLOW_SECONDS * steps


def _size(starts: int, waiting: int) -> int:
    """Return the slices' size, by the number of starts and waiting steps."""
    if starts < FEWEST_IN_A_SLICE:
        return 1
    return min(MOST_IN_A_SLICE, max(FEWEST_IN_A_SLICE, -(-(starts + waiting) // SLICES)))


def _pages(numbers: Iterable[int], size: int) -> Iterator[list[int]]:
    rest = iter(numbers)
    while page := list(islice(rest, size)):
        yield page
