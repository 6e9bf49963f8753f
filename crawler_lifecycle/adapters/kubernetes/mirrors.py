"""How is a long log followed without fetching all of it for every line?

The API cannot begin at a byte, but it can go on after the end: one stream goes into a file of ours for as long as
somebody reads from that. The file has no name, so nothing of it is left when its process is gone.
"""

import os
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, suppress

from crawler_lifecycle.adapters.kubernetes.api import ApiFailed, Missing
from crawler_lifecycle.adapters.local.logs import CHUNK, characters
from crawler_lifecycle.ports import LogChunk

WORTH_IT = 1 << 20  # bytes; shorter ones are fetched whole
MOST = 32  # each is a connection, a thread and a file
IDLE_SECONDS = 30.0

Open = Callable[[], Generator[bytes]]


class Mirrors:
    """Of one process, by the uids of pods."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = dict[str, _Mirror]()

    def read(self, uid: str, offset: int) -> LogChunk | None:
        """None: there is none of this log. The last bytes are another matter: nobody knows how far it is behind."""
        with self._lock:
            mirror = self._open.get(uid)
        return mirror.read(offset) if mirror and offset >= 0 else None

    def begin(self, uid: str, stream: Open) -> None:
        with self._lock:
            self._open = {known: mirror for known, mirror in self._open.items() if not mirror.over}
            if uid not in self._open and len(self._open) < MOST:
                with suppress(OSError, RuntimeError):  # no room, file or thread for it: logs are fetched whole then
                    self._open[uid] = _Mirror(stream)


class _Mirror:
    def __init__(self, stream: Open) -> None:
        self.over = False
        self._asked_at = time.monotonic()
        self._lock = threading.Lock()
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (its thread closes it)
        threading.Thread(target=self._fill, args=(stream,), name="log", daemon=True).start()

    def read(self, offset: int) -> LogChunk | None:
        """Nothing if it is behind what was read before it began."""
        self._asked_at = time.monotonic()
        with self._lock:
            if self.over:
                return None
            text, taken = characters(os.pread(self._file.fileno(), CHUNK, offset), final=False)
        return LogChunk(text, offset + taken, ended=False)

    def _fill(self, stream: Open) -> None:
        """Until it ends, says nothing for long, or nobody reads it."""
        try:
            with suppress(Missing, ApiFailed, OSError), closing(stream()) as pieces:
                for piece in pieces:
                    is_full = self._file.write(piece) < len(piece)
                    if is_full or time.monotonic() - self._asked_at > IDLE_SECONDS:
                        break
        finally:
            with self._lock:
                self.over = True
                self._file.close()
