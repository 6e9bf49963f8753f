"""Clock of the API server, read from the Date header of its answers.

Ages of objects are computed with this clock: the API server writes the times of Jobs and pods, and the clock of this
machine may be an hour away from its clock. A Date header has whole seconds and may be old by the time that the answer
took: the clock is right within a second or two.

Several API servers may answer, with clocks minutes apart. The slowest clock counts, so no job is ended too
early: ages may then be too small by the difference.
"""

import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

FIRST, LAST = datetime(1970, 1, 2, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)  # times outside are nonsense
SAME_WITHIN_SECONDS = 2  # clocks that differ by no more than this agree
HALF_A_SECOND = timedelta(seconds=0.5)  # is added to a header's time: the header leaves out up to a second
PERIOD_SECONDS = 1800.0  # the slowest clock in the present and the previous period counts


class ServerClock:
    """Clock that many threads read and set."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # the slowest API server's time when our monotonic clock showed 0, in the present and in the previous period
        self._slowest: tuple[datetime, ...] = ()
        self._period_began_at = 0.0  # by our monotonic clock

    def set(self, date: str | None) -> None:
        """Compare the clock with a Date header. A missing or senseless header changes nothing."""
        server_time = _parsed(date)
        if server_time is None:
            return
        with self._lock:
            monotonic = time.monotonic()
            at_zero = server_time + HALF_A_SECOND - timedelta(seconds=monotonic)
            age = monotonic - self._period_began_at
            if self._slowest and age < PERIOD_SECONDS:
                self._slowest = min(at_zero, self._slowest[0]), *self._slowest[1:]
            else:
                previous = self._slowest[:1] if age < 2 * PERIOD_SECONDS else ()
                self._slowest, self._period_began_at = (at_zero, *previous), monotonic

    def now(self) -> datetime:
        """Return the slowest API server's time, or before the first answer the time of our own clock."""
        with self._lock:
            slowest = self._slowest
        return min(slowest) + timedelta(seconds=time.monotonic()) if slowest else datetime.now(UTC)

    @property
    def difference(self) -> timedelta | None:
        """Return how far our clock is ahead of the API server's; None before its first answer."""
        return datetime.now(UTC) - self.now() if self._slowest else None

    def words(self) -> str:
        """Say how far the two clocks are apart, as a part of a sentence."""
        if (ahead := self.difference) is None:
            return "its clock is not known"
        seconds = round(ahead.total_seconds())
        if abs(seconds) <= SAME_WITHIN_SECONDS:
            return "its clock agrees with ours"
        return f"its clock is {abs(seconds)} s {'behind' if seconds > 0 else 'ahead of'} ours"


def _parsed(date: str | None) -> datetime | None:
    try:
        at = parsedate_to_datetime(date or "")
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return at if FIRST < at < LAST else None
