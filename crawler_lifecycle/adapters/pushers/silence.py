"""How long is a receiver left alone that did not answer? Whoever waits for one takes the place of another step.

After a try that came to its time limit the next ones fail at once, for a pause that doubles until somebody answers.
When the pause is over, one of them asks, and the others go on failing until it knows.
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
    """It was waited for until the time limit."""


class Silence:
    """Of one receiver, as this process knows it. Used by several threads at once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._silences = 0  # time limits reached since the last answer
        self._until = 0.0
        self._is_asked = False

    @contextmanager
    def broken(self) -> Iterator[None]:
        """Around a request. TemporaryError at once if it is not the time for one."""
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
            if self._silences and (now < self._until or self._is_asked):
                left = max(self._until - now, 0.0)
                raise TemporaryError(f"it did not answer lately and is asked again in {left:.0f} s")
            self._is_asked = True
            return now

    def _end(self, began: float, *, answered: bool) -> None:
        with self._lock:
            self._is_asked = False
            if answered:
                self._silences = 0
            elif began >= self._until:  # else it was under way when another had waited in vain
                self._silences += 1
                self._until = self._clock() + PAUSES.seconds(self._silences)
