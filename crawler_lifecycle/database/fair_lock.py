"""Lock that lets SQLite's writers of one process take turns.

SQLite admits a single writer, and waiting writers try again now and then: under load a writer may starve. The lock
prevents starvation within a process; between processes SQLite's own waiting remains.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from crawler_lifecycle.database.failures import Contended

WITHOUT_LIMIT = -1.0  # a patience without a time limit


class FairLock:
    """Lock granted to threads in the order in which they ask.

    Every thread queues up with its own gate, a closed lock. The first thread in the queue has the fair lock. When the
    first thread leaves the queue, the next thread's gate is opened.
    """

    def __init__(self) -> None:
        self._queue: deque[Lock] = deque()
        self._queue_guard = Lock()

    @contextmanager
    def held(self, patience: float) -> Iterator[None]:
        """Hold the lock during the block. Contended if the thread's turn does not come within `patience` seconds."""
        gate = Lock()
        gate.acquire()
        with self._queue_guard:
            self._queue.append(gate)
            is_first = len(self._queue) == 1
        try:
            if not is_first and not gate.acquire(timeout=patience):
                raise Contended(f"other threads of this process have written to the database for {patience:.0f} s")
            yield
        finally:  # also after an interruption of the wait: a gate left in the queue would block all later threads
            self._leave_queue(gate)

    def _leave_queue(self, gate: Lock) -> None:
        with self._queue_guard:
            was_first = self._queue[0] is gate
            self._queue.remove(gate)
            if was_first and self._queue:
                self._queue[0].release()
