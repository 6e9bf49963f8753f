"""Mirrors of long logs, so that a reader gets new lines without fetching the whole log.

The API cannot begin a log at a byte, but can stream new lines as they come: a stream fills a file of ours for as long
as a reader comes back. The file has no name, so it disappears with its process.

The node begins a new file for a growing log: a stream goes on through the change and counts all bytes since its
beginning, while a fetch counts the bytes in the new file. So the same place may mean different bytes. A mirror accepts
a place if the mirror gave out the place itself, or has the same bytes before the place as the fetched log.
"""

import os
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from dataclasses import dataclass

from crawler_lifecycle.adapters.kubernetes.http.answers import ApiFailed, Missing
from crawler_lifecycle.adapters.log_files import CHUNK, characters
from crawler_lifecycle.ports import LogChunk

WORTH_IT = 1 << 20  # bytes; shorter logs are fetched whole
MOST = 32  # a mirror needs a connection, a thread and a file
IDLE_SECONDS = 30.0
CATCH_UP_SECONDS = 15.0
COMPARED = 1 << 12  # bytes before a place
MOST_PLACES = 1000  # per mirror

Open = Callable[[], Generator[bytes]]


@dataclass(frozen=True, slots=True)
class Position:
    """A position is a reader's place in a log, with the bytes just before."""

    offset: int
    before: bytes = b""


class Mirrors:
    """Mirrors holds the process's mirrors by pod uid."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = dict[str, _Mirror]()

    def read(self, uid: str, offset: int) -> LogChunk | None:
        """Return the next chunk, or None if the log has no mirror or the mirror does not know the place."""
        with self._lock:
            mirror = self._open.get(uid)
        return mirror.read(offset) if mirror else None

    def begin(self, uid: str, position: Position, stream: Open) -> None:
        """Begin a mirror for a reader at the place; an existing mirror admits the reader."""
        with self._lock:
            self._open = {known: mirror for known, mirror in self._open.items() if not mirror.over}
            if known := self._open.get(uid):
                known.admit(position)
            elif len(self._open) < MOST:
                with suppress(OSError, RuntimeError):  # no room, file or thread is free: logs are fetched whole then
                    self._open[uid] = _Mirror(position, stream)


class _Mirror:
    def __init__(self, position: Position, stream: Open) -> None:
        self.over = False
        self._begun_for = position
        self._began_at = self._asked_at = time.monotonic()
        self._written = 0
        self._places = dict.fromkeys([position.offset])
        self._lock = threading.Lock()
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (its thread closes it)
        threading.Thread(target=self._fill, args=(stream,), name="log", daemon=True).start()

    def read(self, offset: int) -> LogChunk | None:
        with self._lock:
            if self.over or offset not in self._places:
                return None
            self._asked_at = time.monotonic()
            if self._written < offset:  # bytes from before the mirror's beginning have to come again
                is_late = self._asked_at - self._began_at > CATCH_UP_SECONDS
                return None if is_late else LogChunk("", offset, ended=False)
            text, taken = characters(os.pread(self._file.fileno(), CHUNK, offset), final=False)
            self._remember(offset + taken)
        return LogChunk(text, offset + taken, ended=False)

    def admit(self, position: Position) -> None:
        with self._lock:
            if not self.over and self._has(self._begun_for) and self._has(position):
                self._remember(position.offset)

    def _has(self, position: Position) -> bool:
        length = len(position.before)
        if self._written < position.offset:
            return False
        return os.pread(self._file.fileno(), length, position.offset - length) == position.before

    def _remember(self, offset: int) -> None:
        """Remember a place, and drop the place that was unused for longest."""
        self._places.pop(offset, None)
        self._places[offset] = None
        if len(self._places) > MOST_PLACES:
            del self._places[next(iter(self._places))]

    def _fill(self, stream: Open) -> None:
        """Copy the stream until it ends, is silent for long, has no readers, or turns out to be from another file."""
        try:
            with suppress(Missing, ApiFailed, OSError), closing(stream()) as pieces:
                for piece in pieces:
                    with self._lock:
                        goes_on = self._append(piece)
                    if not goes_on:
                        break
        finally:
            with self._lock:
                self.over = True
                self._file.close()

    def _append(self, piece: bytes) -> bool:
        """Write the piece. Return False if the mirror must end: other file, full disk, or no reader for long."""
        was_behind = self._written < self._begun_for.offset
        taken = self._file.write(piece)
        self._written += taken
        if was_behind and self._written >= self._begun_for.offset and not self._has(self._begun_for):
            return False
        return taken == len(piece) and time.monotonic() - self._asked_at <= IDLE_SECONDS
