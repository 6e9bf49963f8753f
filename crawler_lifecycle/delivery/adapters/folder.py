"""Exporter for a machine without further services: events in a file, archives in a folder."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO

from crawler_lifecycle.clusters.adapters.regular_files import files_of
from crawler_lifecycle.delivery.adapters.archive import DEFAULT_LIMITS, ArchiveLimits, archive_writer
from crawler_lifecycle.delivery.adapters.json_lines import append_once, check_writable
from crawler_lifecycle.delivery.ports import Archive, OnProgress, StoredArchive
from crawler_lifecycle.errors import NotFound, TemporaryError
from crawler_lifecycle.model.naming import archive_name, checked_uid
from crawler_lifecycle.model.notices import AnyEvent

FLUSH_BYTES = 256 << 20  # the zip is flushed to disk after every read of this number of bytes from the run's files


class FolderExporter:
    """Exporter that appends the events to `events.jsonl`, and writes the archives beside this file.

    `with_events=False`: no file for events.
    """

    def __init__(
        self, files: Path, exports: Path, limits: ArchiveLimits = DEFAULT_LIMITS, *, with_events: bool = True
    ) -> None:
        self._files = files.absolute()
        self._exports = exports.absolute()
        self._limits = limits
        self._with_events = with_events

    def announce(self, event: AnyEvent) -> None:
        if self._with_events:
            append_once(self._exports / "events.jsonl", event.model_dump_json(), event.event_id)

    def destination(self, run_uid: str, end: int) -> str:
        return str(self._exports / archive_name(checked_uid(run_uid), end))

    def archive(
        self, run_uid: str, end: int, ended_at: datetime, progress: OnProgress, *, may_lack_files: bool = True
    ) -> Archive | None:
        """Write the archive, under its name only when complete. Return its figures; None if the run left no files."""
        destination = Path(self.destination(run_uid, end))
        folder = files_of(self._files, run_uid)
        if folder is None:
            return None
        try:
            with self._draft(run_uid) as draft:
                with draft.open("wb") as file:
                    flushing = _FlushingProgress(file, progress)
                    with archive_writer(file, ended_at, flushing, self._limits) as archive:
                        archive.add_folder(folder)
                    file.flush()
                    os.fsync(file.fileno())
                if not archive.is_worth_keeping(may_lack_files=may_lack_files):
                    return None
                draft.rename(destination)
        except OSError as error:
            raise TemporaryError(f"{destination} cannot be written: {error}") from error
        return archive.written_to(str(destination))

    def stored(self, run_uid: str, end: int) -> StoredArchive:
        path = Path(self.destination(run_uid, end))
        try:
            return StoredArchive(path.name, path.stat().st_size, path=path)
        except FileNotFoundError as error:
            raise NotFound(
                f"there is no archive at {path}: it was removed, or is in the folder of another machine"
            ) from error
        except OSError as error:
            raise TemporaryError(f"{path} cannot be read: {error}") from error

    def check_events(self) -> str:
        if not self._with_events:
            return "no receiver for events: CRAWLER_EXPORT__FILE is false"
        check_writable(self._exports)
        return f"events in {self._exports / 'events.jsonl'}"

    def check_archives(self) -> str:
        check_writable(self._exports)
        return f"archives in {self._exports}"

    @contextmanager
    def _draft(self, run_uid: str) -> Iterator[Path]:
        """Yield a new draft, a file for the zip, and remove the run's abandoned drafts, left by killed processes.

        A draft is locked while its process lives. Two exports at once do no harm, since each has its own draft: the
        second export replaces the first archive by an equal archive.
        """
        self._exports.mkdir(parents=True, exist_ok=True)
        for earlier_draft in self._exports.glob(f".{run_uid}.*.part"):
            _remove_if_abandoned(earlier_draft)
        draft, lock = _new_draft(self._exports, run_uid)
        try:
            draft.chmod(0o644)
            yield draft
        finally:
            draft.unlink(missing_ok=True)
            os.close(lock)


@dataclass
class _FlushingProgress:
    """Report progress, and flush the file to disk after every FLUSH_BYTES.

    A single flush at the end could take long enough for the worker to count as dead.
    """

    file: IO[bytes]
    progress: OnProgress
    flushed_at: int = 0

    def __call__(self, files: int, bytes_done: int) -> None:
        if bytes_done - self.flushed_at >= FLUSH_BYTES:
            self.flushed_at = bytes_done
            self.file.flush()
            os.fsync(self.file.fileno())
        self.progress(files, bytes_done)


def _new_draft(folder: Path, run_uid: str) -> tuple[Path, int]:
    """Return a draft and the open file that holds its lock."""
    while True:
        descriptor, name = tempfile.mkstemp(dir=folder, prefix=f".{run_uid}.", suffix=".part")
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if Path(name).exists():
            return Path(name), descriptor
        os.close(descriptor)  # another process has removed the draft before the lock: create another draft


def _remove_if_abandoned(draft: Path) -> None:
    """Remove the draft unless a living process holds its lock."""
    try:
        with draft.open("rb+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            draft.unlink()
    except (FileNotFoundError, BlockingIOError):
        return  # finished just now, or still being written
