"""When is the next look due?

Look times are absolute: counted from the start of reconciliation, never from the end of the last look,
so that neither slow looks nor nudges move them.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

FIBONACCI_MINUTES = (1, 2, 3, 5, 8)
STEADY_MINUTES = 15
SHORTEST_NUDGE_GAP = timedelta(seconds=1)
NUDGE_GAP_IN_LOOKS = 10
LOG_BYTES_PER_SECOND = 4 << 20
LONGEST_LOG_PAUSE = 15.0
LONGEST_SILENCE = timedelta(minutes=20)  # since a look was due, until nobody seems to look any more
LONGEST_NUDGE_GAP = timedelta(
    minutes=2
)  # no look is that slow: it waited out an outage, which says nothing of the next


def look_time(anchor: datetime, number: int) -> datetime:
    """The time of the number-th look (from 1): 1, 3, 6, 11, 19 minutes after the anchor, then every 15."""
    steady = max(0, number - len(FIBONACCI_MINUTES))
    return anchor + timedelta(minutes=sum(FIBONACCI_MINUTES[:number]) + STEADY_MINUTES * steady)


def next_look(anchor: datetime, number: int, now: datetime) -> int:
    """The first look from `number` on that is still ahead: an outage skips looks, it does not pile them up."""
    while look_time(anchor, number) <= now:
        number += 1
    return number


def earliest_nudged_look(last_look_ended: datetime, last_look_took: timedelta) -> datetime:
    """A big run must not look all the time because its tasks keep ending."""
    return last_look_ended + min(max(SHORTEST_NUDGE_GAP, NUDGE_GAP_IN_LOOKS * last_look_took), LONGEST_NUDGE_GAP)


def log_pause(fetched: int, shortest: float) -> float:
    """Seconds until a log is asked for again: where it is fetched from its beginning each time, that has its price."""
    return min(max(shortest, fetched / LOG_BYTES_PER_SECOND), LONGEST_LOG_PAUSE)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses between tries: each pause is twice the pause before, up to the longest."""

    first: timedelta
    longest: timedelta

    def pause(self, attempt: int) -> timedelta:
        """Return the pause after an attempt; attempts count from 1."""
        return min(self.longest, self.first * (1 << min(attempt - 1, 30)))

    def seconds(self, attempt: int) -> float:
        return self.pause(attempt).total_seconds()
