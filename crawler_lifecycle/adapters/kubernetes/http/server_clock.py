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
SAME_WITHIN_SECONDS = 2
HALF_A_SECOND = timedelta(seconds=0.5)  # the header cuts its time down to a second


class ServerClock:
    """Clock that many threads read and set."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read: tuple[datetime, float] | None = None  # the API server's time, and our monotonic time then

    def set(self, date: str | None) -> None:
        """Take the time over from a Date header. A header that is missing or makes no sense changes nothing."""
        at = _moment(date)
        if at is not None:
            with self._lock:
                self._read = at + HALF_A_SECOND, time.monotonic()

    def now(self) -> datetime:
        """Return the API server's time; before its first answer, ours."""
        with self._lock:
            read = self._read
        if read is None:
            return datetime.now(UTC)
        at, then = read
        return at + timedelta(seconds=time.monotonic() - then)

    @property
    def difference(self) -> timedelta | None:
        """Return how far our clock is ahead of the API server's; None before its first answer."""
        return None if self._read is None else datetime.now(UTC) - self.now()

    def words(self) -> str:
        """Say how far the two clocks are apart, as a part of a sentence."""
        if (ahead := self.difference) is None:
            return "its clock is not known"
        seconds = round(ahead.total_seconds())
        if abs(seconds) <= SAME_WITHIN_SECONDS:
            return "its clock agrees with ours"
        return f"its clock is {abs(seconds)} s {'behind' if seconds > 0 else 'ahead of'} ours"


def _moment(date: str | None) -> datetime | None:
    try:
        at = parsedate_to_datetime(date or "")
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return at if FIRST < at < LAST else None
