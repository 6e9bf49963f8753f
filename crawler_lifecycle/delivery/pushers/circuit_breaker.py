"""Circuit breaker for a silent receiver of notices."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from crawler_lifecycle.base.pacing import Backoff
from crawler_lifecycle.errors import TemporaryError

PAUSES = Backoff(timedelta(seconds=15), timedelta(minutes=5))


class NoAnswer(TemporaryError):
    """The time limit ended without an answer."""


class CircuitBreaker:
    """A circuit breaker for a receiver, shared by a process's threads.

    Without the breaker, waits for a silent receiver would fill the worker's slots. A request without an answer in time
    begins a pause, in which all requests fail at once. After the pause a single request goes through as a probe. Other
    requests fail until the probe's outcome is known: an answer lets all requests go through again, and silence begins
    another pause, twice as long.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._silences = 0  # requests without an answer since the last answer
        self._pause_end = 0.0
        self._probe_is_under_way = False  # only after a silence; an answering receiver needs no probe

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Wrap a request. Raise TemporaryError instead during a pause, or while a probe is under way.

        The block raises NoAnswer for silence; every other outcome counts as an answer.
        """
        began_at, is_answered = self._begin(), True
        try:
            yield
        except NoAnswer:
            is_answered = False
            raise
        finally:
            self._end(began_at, is_answered=is_answered)

    def _begin(self) -> float:
        """Return the time if the request may go through; else raise TemporaryError."""
        with self._lock:
            now = self._clock()
            if self._silences:
                if now < self._pause_end or self._probe_is_under_way:
                    remaining = max(self._pause_end - now, 0.0)
                    raise TemporaryError(f"it did not answer lately and is asked again in {remaining:.0f} s")
                self._probe_is_under_way = True
            return now

    def _end(self, began_at: float, *, is_answered: bool) -> None:
        with self._lock:
            self._probe_is_under_way = False
            if is_answered:
                self._silences = 0
            elif began_at >= self._pause_end:  # a request that began before the pause does not double the pause
                self._silences += 1
                self._pause_end = self._clock() + PAUSES.seconds(self._silences)
