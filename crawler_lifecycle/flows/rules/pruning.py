"""Rules for the ended flows that leave the ledger. Rules compare ages, and are combined with `&` and `|`.

An age counts from the flow's end: a flow that took long does not leave the ledger at its end.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

Seconds = float | timedelta
AGE_SQL = "TIMESTAMPDIFF(MICROSECOND, stopped_at, UTC_TIMESTAMP(6)) / 1000000"


@dataclass(frozen=True)
class Rule:
    """A condition on a flow's age."""

    holds: Callable[[timedelta], bool]
    sql: str = field(compare=False)

    def to_sql(self) -> str:
        """Return the rule in SQL, for the table `flows` in MySQL or MariaDB. Pruning itself does not use SQL."""
        return self.sql

    def __and__(self, other: "Rule") -> "Rule":
        return Rule(lambda age: self.holds(age) and other.holds(age), f"({self.sql}) AND ({other.sql})")

    def __or__(self, other: "Rule") -> "Rule":
        return Rule(lambda age: self.holds(age) or other.holds(age), f"({self.sql}) OR ({other.sql})")


class Age:
    """Time since the flow's end, in seconds or as a timedelta: `Age() > 3600`."""

    def to_sql(self) -> str:
        """Return the age's seconds in SQL, for the table `flows` in MySQL or MariaDB."""
        return AGE_SQL

    def __gt__(self, limit: Seconds) -> Rule:
        return _rule(operator.gt, ">", limit)

    def __ge__(self, limit: Seconds) -> Rule:
        return _rule(operator.ge, ">=", limit)

    def __lt__(self, limit: Seconds) -> Rule:
        return _rule(operator.lt, "<", limit)

    def __le__(self, limit: Seconds) -> Rule:
        return _rule(operator.le, "<=", limit)

    def __eq__(self, limit: Seconds) -> Rule:  # type: ignore[override]
        return _rule(operator.eq, "=", limit)

    def __ne__(self, limit: Seconds) -> Rule:  # type: ignore[override]
        return _rule(operator.ne, "!=", limit)

    __hash__ = None  # type: ignore[assignment]


def _rule(compare: Callable[[timedelta, timedelta], bool], sign: str, limit: Seconds) -> Rule:
    duration = limit if isinstance(limit, timedelta) else timedelta(seconds=limit)
    return Rule(lambda age: compare(age, duration), f"{AGE_SQL} {sign} {duration.total_seconds()}")


AFTER_A_DAY = Age() > timedelta(days=1)
