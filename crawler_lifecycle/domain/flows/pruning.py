"""Pruning: which ended flows leave the ledger. Rules compare ages, and are combined with `&` and `|`.

An age counts from the flow's end: a flow that took long does not leave the ledger at its end.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

Seconds = float | timedelta


@dataclass(frozen=True)
class Rule:
    """A condition on a flow's age."""

    holds: Callable[[timedelta], bool]

    def __and__(self, other: "Rule") -> "Rule":
        return Rule(lambda age: self.holds(age) and other.holds(age))

    def __or__(self, other: "Rule") -> "Rule":
        return Rule(lambda age: self.holds(age) or other.holds(age))


class Age:
    """Time since the flow's end, in seconds or as a timedelta: `Age() > 3600`."""

    def __gt__(self, limit: Seconds) -> Rule:
        return Rule(lambda age: age > _duration(limit))

    def __ge__(self, limit: Seconds) -> Rule:
        return Rule(lambda age: age >= _duration(limit))

    def __lt__(self, limit: Seconds) -> Rule:
        return Rule(lambda age: age < _duration(limit))

    def __le__(self, limit: Seconds) -> Rule:
        return Rule(lambda age: age <= _duration(limit))


AFTER_A_DAY = Age() > timedelta(days=1)


def _duration(limit: Seconds) -> timedelta:
    return limit if isinstance(limit, timedelta) else timedelta(seconds=limit)
