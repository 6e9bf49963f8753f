"""Times of looks, and pauses between tries.

Look times are absolute: counted from the start of reconciliation, never from the end of the last look. So neither slow
looks nor nudges move them.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

FIBONACCI_MINUTES = (1, 2, 3, 5, 8)
STEADY_MINUTES = 15
SHORTEST_NUDGE_GAP = timedelta(seconds=1)
NUDGE_GAP_IN_LOOKS = 10
LOG_BYTES_PER_SECOND = 4 << 20
LONGEST_LOG_PAUSE = 15.0
LONGEST_SILENCE = timedelta(minutes=20)  # since a look was due, until looks count as ended
# a longer gap would follow from a look that waited out an outage, while the next look may be quick
LONGEST_NUDGE_GAP = timedelta(minutes=2)


def look_time(anchor: datetime, number: int) -> datetime:
    """Return the time of a look by its number: 1, 3, 6, 11, 19 minutes after the anchor, then every 15 minutes."""
    steady = max(0, number - len(FIBONACCI_MINUTES))
    return anchor + timedelta(minutes=sum(FIBONACCI_MINUTES[:number]) + STEADY_MINUTES * steady)


def next_look(anchor: datetime, number: int, now: datetime) -> int:
    """Return the number of the first look still ahead, from `number` on. Looks missed in an outage are skipped, not
    made up.
    """
    while look_time(anchor, number) <= now:
        number += 1
    return number


def earliest_nudged_look(last_look_ended: datetime, last_look_took: timedelta) -> datetime:
    """Return when a nudge may cause the next look. Without a gap a big run whose tasks keep ending would look all the
    time.
    """
    return last_look_ended + min(max(SHORTEST_NUDGE_GAP, NUDGE_GAP_IN_LOOKS * last_look_took), LONGEST_NUDGE_GAP)


def log_pause(fetched: int, shortest: float) -> float:
    """Return the seconds until the next request for a log. A log that has to be fetched from its beginning is requested
    rarely.
    """
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
