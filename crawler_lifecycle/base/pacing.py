"""Rules for times: when the next look is due, and how long to pause between tries and between reads of a log.

Look times count from the start of reconciliation (the anchor) and never from the end of the last look, so neither slow
looks nor nudges move later looks.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

FIBONACCI_MINUTES = (1, 2, 3, 5, 8)  # pauses between the first looks
STEADY_MINUTES = 15  # pause between all later looks
FIRST_STEADY_LOOK = len(FIBONACCI_MINUTES)  # number of the first look with the long pause after it
SHORTEST_OUTAGE_PAUSE = timedelta(seconds=15)  # from a look that could not observe the cluster to the next look
OUTAGE_PAUSE_SHARE = 0.25  # of the outage: a lasting problem soon has the paced looks only
SHORTEST_NUDGE_GAP = timedelta(seconds=1)  # from the end of a look to a look for a nudge
# The gap is at least ten times as long as the last look took. Without the gap, a big run whose tasks keep ending would
# look all the time.
NUDGE_GAP_IN_LOOKS = 10
# Without this bound, a look that took long in an outage would cause a gap ten times as long as the outage.
LONGEST_NUDGE_GAP = timedelta(minutes=2)
# 4 MiB, on average: without this limit, a reader of a long log could fetch the whole log several times a second.
LOG_BYTES_PER_SECOND = 4 << 20
LONGEST_LOG_PAUSE = 15.0  # seconds; a longer pause would look to the reader as if the log stood still
# A run whose next look is overdue for longer gets no new jobs: the run has no supervisor, or its row is an old copy.
LONGEST_SILENCE = timedelta(minutes=20)
# a deployment request that was sent in time may arrive at the cluster up to this long after its `not_after`
ON_THE_WAY = timedelta(seconds=60)
HELD_PAUSE = timedelta(minutes=15)  # between two tries of a run that waits for its permit; a nudge comes earlier


def look_time(anchor: datetime, number: int) -> datetime:
    """Return the time of a look by its number: 1, 3, 6, 11, 19 minutes after the anchor, then every 15 minutes."""
    steady = max(0, number - len(FIBONACCI_MINUTES))
    return anchor + timedelta(minutes=sum(FIBONACCI_MINUTES[:number]) + STEADY_MINUTES * steady)


def next_look(anchor: datetime, number: int, now: datetime) -> int:
    """Return the number of the first look that is due after `now`, from `number` on; missed looks are skipped."""
    while look_time(anchor, number) <= now:
        number += 1
    return number


def look_in_outage(unseen_since: datetime, now: datetime) -> datetime:
    """Return when to look again while looks cannot observe the cluster: the longer the outage, the longer the pause."""
    return now + max(SHORTEST_OUTAGE_PAUSE, OUTAGE_PAUSE_SHARE * (now - unseen_since))


def earliest_nudged_look(last_look_ended: datetime, last_look_took: timedelta) -> datetime:
    """Return the earliest time of a look for a nudge: the longer the last look took, the longer the gap."""
    gap = max(SHORTEST_NUDGE_GAP, NUDGE_GAP_IN_LOOKS * last_look_took)
    return last_look_ended + min(gap, LONGEST_NUDGE_GAP)


def log_pause(fetched: int, shortest: float) -> float:
    """Return the seconds until the next request for a log: longer after more fetched bytes, and at least `shortest`."""
    return min(max(shortest, fetched / LOG_BYTES_PER_SECOND), LONGEST_LOG_PAUSE)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses between tries: each pause is twice the pause before, up to the longest."""

    first: timedelta
    longest: timedelta

    def pause(self, attempt: int) -> timedelta:
        """Return the pause after an attempt; attempts count from 1."""
        doublings = min(attempt - 1, 30)  # a timedelta could not hold more doublings
        return min(self.longest, self.first * (1 << doublings))

    def seconds(self, attempt: int) -> float:
        return self.pause(attempt).total_seconds()
