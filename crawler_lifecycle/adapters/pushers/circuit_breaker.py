"""Circuit breaker for a silent receiver: without the breaker, waits for the receiver would fill the worker's slots.

After a try without an answer within the time limit, the next tries fail at once, for a pause that doubles until an
answer comes. When the pause is over, a single try goes through, and the others fail until its outcome is known.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from crawler_lifecycle.domain.pacing import Backoff
from crawler_lifecycle.errors import TemporaryError

PAUSES = Backoff(timedelta(seconds=15), timedelta(minutes=5))


class NoAnswer(TemporaryError):
    """The time limit ended without an answer."""


class CircuitBreaker:
    """A circuit breaker for one receiver in one process. Several threads may use the breaker at once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._silences = 0  # tries without an answer since the last answer
        self._until = 0.0
        self._is_probing = False

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Wrap a request. TemporaryError at once during a pause."""
        began, answered = self._begin(), True
        try:
            yield
        except NoAnswer:
            answered = False
            raise
        finally:
            self._end(began, answered=answered)

    def _begin(self) -> float:
        with self._lock:
            now = self._clock()
            if self._silences and (now < self._until or self._is_probing):
                remaining = max(self._until - now, 0.0)
                raise TemporaryError(f"it did not answer lately and is asked again in {remaining:.0f} s")
            self._is_probing = True
            return now

    def _end(self, began: float, *, answered: bool) -> None:
        with self._lock:
            self._is_probing = False
            if answered:
                self._silences = 0
            elif began >= self._until:  # a request that began before the pause does not double the pause
                self._silences += 1
                self._until = self._clock() + PAUSES.seconds(self._silences)
