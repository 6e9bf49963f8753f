"""Output: lines by a manager's object on their way to the record."""

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic

from crawler_lifecycle.flows.model.manager_records import OutputLine
from crawler_lifecycle.flows.rules.output import LONGEST_LINE, MOST_LINES

PAUSE_SECONDS = 1.0  # between two writes: a manager that prints all the time must not write all the time


@dataclass
class Output:
    """The lines since the last write. Another thread than the manager's adds them."""

    _lines: deque[OutputLine] = field(default_factory=lambda: deque(maxlen=MOST_LINES))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _due: float = 0.0

    def add(self, text: str) -> None:
        with self._lock:
            self._lines.append(OutputLine(at=datetime.now(UTC), text=text[:LONGEST_LINE]))

    @property
    def seconds_to_write(self) -> float | None:
        """Return the time until the lines should be written; None without lines."""
        return max(0.0, self._due - monotonic()) if self._lines else None

    def lines(self) -> Sequence[OutputLine]:
        with self._lock:
            return tuple(self._lines)

    def defer(self) -> None:
        """Let the next write wait."""
        self._due = monotonic() + PAUSE_SECONDS

    def note_written(self, lines: Sequence[OutputLine]) -> None:
        self.defer()
        written = {id(line) for line in lines}  # by identity, since the clock may be set back
        with self._lock:
            while self._lines and id(self._lines[0]) in written:
                self._lines.popleft()
