"""Fair lock for SQLite writers of one process.

SQLite admits a single writer, and waiting writers try again now and then: under load a writer may starve. The lock
prevents starvation within a process; between processes SQLite's own waiting remains.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from crawler_lifecycle.adapters.sql.failures import Contended

WITHOUT_LIMIT = -1.0


class FairLock:
    """Lock granted to threads in the order of their requests."""

    def __init__(self) -> None:
        self._queue: deque[Lock] = deque()
        self._changing = Lock()

    @contextmanager
    def held(self, patience: float) -> Iterator[None]:
        """Hold the lock during the block. Contended if the thread's turn does not come within `patience` seconds."""
        mine = Lock()
        mine.acquire()
        with self._changing:
            self._queue.append(mine)
            is_first = len(self._queue) == 1
        try:
            if not is_first and not mine.acquire(timeout=patience):
                raise Contended(f"other threads of this process have written to the database for {patience:.0f} s")
            yield
        finally:  # a cancelled activity is interrupted while it waits: its place must not hold up the threads behind it
            self._leave(mine)

    def _leave(self, mine: Lock) -> None:
        with self._changing:
            was_first = self._queue[0] is mine
            self._queue.remove(mine)
            if was_first and self._queue:
                self._queue[0].release()
