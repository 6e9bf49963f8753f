"""Fair lock for SQLite writers of one process.

SQLite admits a single writer, and waiting writers try again now and then: under load a writer may starve. The lock
prevents starvation within a process; between processes SQLite's own waiting remains.
"""

from collections import deque
from threading import Lock


class FairLock:
    """A lock that threads get in the order of their requests."""

    def __init__(self) -> None:
        self._queue: deque[Lock] = deque()
        self._changing = Lock()

    def __enter__(self) -> None:
        mine = Lock()
        mine.acquire()
        with self._changing:
            self._queue.append(mine)
            is_first = len(self._queue) == 1
        try:
            if not is_first:
                mine.acquire()
        except BaseException:  # a cancelled activity is interrupted here; the next thread would wait for ever
            self._leave(mine)
            raise

    def __exit__(self, *_: object) -> None:
        self._leave(self._queue[0])

    def _leave(self, mine: Lock) -> None:
        with self._changing:
            was_first = self._queue[0] is mine
            self._queue.remove(mine)
            if was_first and self._queue:
                self._queue[0].release()
