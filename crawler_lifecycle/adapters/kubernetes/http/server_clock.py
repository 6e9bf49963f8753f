"""Clock of the API server, read from the Date header of its answers.

Ages of objects are computed with this clock: the API server writes the times of Jobs and pods, and the clock of this
machine may be an hour away from its clock. A Date header has whole seconds and may be old by the time that the answer
took: the clock is right within a second or two.
"""

import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

FIRST, LAST = datetime(1970, 1, 2, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)  # times outside are nonsense
SAME_WITHIN_SECONDS = 2  # clocks that differ by no more than this agree
HALF_A_SECOND = timedelta(seconds=0.5)  # is added to a header's time: the header leaves out up to a second


class ServerClock:
    """Clock that many threads read and set."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # the API server's time in the latest header, and our monotonic time when the header came
        self._reading: tuple[datetime, float] | None = None

    def set(self, date: str | None) -> None:
        """Take the time over from a Date header. A header that is missing or makes no sense changes nothing."""
        server_time = _parsed(date)
        if server_time is not None:
            with self._lock:
                self._reading = server_time + HALF_A_SECOND, time.monotonic()

    def now(self) -> datetime:
        """Return the API server's time, or before its first answer the time of our own clock."""
        with self._lock:
            reading = self._reading
        if reading is None:
            return datetime.now(UTC)
        server_time, read_at = reading
        return server_time + timedelta(seconds=time.monotonic() - read_at)

    @property
    def difference(self) -> timedelta | None:
        """Return how far our clock is ahead of the API server's; None before its first answer."""
        return None if self._reading is None else datetime.now(UTC) - self.now()

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
