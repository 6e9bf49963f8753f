"""Rules for times: when the next look is due, and how long to pause between tries.

Look times count from the start of reconciliation (the anchor) and never from the end of the last look, so neither slow
looks nor nudges move later looks.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

FIBONACCI_MINUTES = (1, 2, 3, 5, 8)
STEADY_MINUTES = 15
SHORTEST_NUDGE_GAP = timedelta(seconds=1)
# the gap in durations of the last look: without a gap, a big run whose tasks keep ending would look all the time
NUDGE_GAP_IN_LOOKS = 10
# without a bound, a look delayed by an outage would cause a gap ten times as long as the outage
LONGEST_NUDGE_GAP = timedelta(minutes=2)
LOG_BYTES_PER_SECOND = 4 << 20  # a reader of a long log would otherwise fetch the whole log several times a second
LONGEST_LOG_PAUSE = 15.0  # seconds
# a run whose next look is overdue for longer has no supervisor (its row may come from a backup) and gets no new jobs
LONGEST_SILENCE = timedelta(minutes=20)


def look_time(anchor: datetime, number: int) -> datetime:
    """Return the time of a look by its number: 1, 3, 6, 11, 19 minutes after the anchor, then every 15 minutes."""
    steady = max(0, number - len(FIBONACCI_MINUTES))
    return anchor + timedelta(minutes=sum(FIBONACCI_MINUTES[:number]) + STEADY_MINUTES * steady)


def next_look(anchor: datetime, number: int, now: datetime) -> int:
    """Return the number of the first look still ahead, from `number` on; looks missed in an outage are skipped."""
    while look_time(anchor, number) <= now:
        number += 1
    return number


def earliest_nudged_look(last_look_ended: datetime, last_look_took: timedelta) -> datetime:
    """Return when a nudge may cause the next look: the longer the last look took, the later."""
    gap = max(SHORTEST_NUDGE_GAP, NUDGE_GAP_IN_LOOKS * last_look_took)
    return last_look_ended + min(gap, LONGEST_NUDGE_GAP)


def log_pause(fetched: int, shortest: float) -> float:
    """Return the seconds until the next request for a log, after a request that fetched so many bytes."""
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
