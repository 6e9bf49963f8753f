"""Who of this process's threads writes next to SQLite? The one that has waited longest.

SQLite lets one writer in at a time and has those that wait look again now and then: under load one of them may
starve. Within a process nobody has to; between processes SQLite's own waiting remains.
"""

from collections import deque
from threading import Lock


class Turns:
    """A lock that is given in the order in which it was asked for."""

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
        except BaseException:  # a cancelled activity is interrupted here: who comes next must not wait for it
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
