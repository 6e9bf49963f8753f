"""Append lines to a JSON lines file, durably and from several processes, and push notices to such a file.

Every day (UTC) begins a new file. The pusher of notices is for installations without a front end.
"""

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from crawler_lifecycle.errors import NotReady, TemporaryError
from crawler_lifecycle.model.flow_states import FlowNotice
from crawler_lifecycle.model.notices import AnyNotice, Notice

logger = logging.getLogger("crawler_lifecycle.notices")
LOOK_BACK = 1024 * 1024  # bytes at the file's end in which `append_once` searches for the line's identity


def append_once(path: Path, line: str, identity: str) -> bool:
    """Append the line durably unless one of the latest lines contains the identity, the line's unique id.

    The first line in a day renames the file: `events.jsonl` becomes `events-2026-11-28.jsonl`, after the day of its
    last line. Return whether the line was appended.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path) as descriptor:
            return _append(path, descriptor, line, identity)
    except OSError as error:
        raise TemporaryError(f"{path} cannot be written: {error.strerror}") from error


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Yield the file for today, with its lock."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # during the wait for the lock, another process may have renamed the file
            if _is_at(path, descriptor) and not _is_renamed(path, descriptor):
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _is_renamed(path: Path, descriptor: int) -> bool:
    """Rename the file if its last line is from an earlier day. Return whether the file was renamed."""
    status = os.fstat(descriptor)
    day = datetime.fromtimestamp(status.st_mtime, UTC).date()
    earlier = path.with_name(f"{path.stem}-{day}{path.suffix}")
    # a file for this day exists after a step back by the clock: the lines then join the next day's file
    if not status.st_size or day >= datetime.now(UTC).date() or earlier.exists():
        return False
    path.rename(earlier)
    return True


def _append(path: Path, descriptor: int, line: str, identity: str) -> bool:
    """Append as `append_once` says, after a line break if the file ends with a line that a crash cut off."""
    *whole_lines, cut_off_line = _end_of(descriptor)
    # the last line does not count if a crash cut off this line: no reader can use the line
    if any(identity.encode() in whole_line for whole_line in [*whole_lines, *_end_of_earlier_file(path, descriptor)]):
        return False
    content = (b"\n" if cut_off_line else b"") + line.encode() + b"\n"
    if os.write(descriptor, content) != len(content):
        raise OSError(0, "the disk is full")
    os.fsync(descriptor)
    return True


def _end_of(descriptor: int) -> list[bytes]:
    """Return the lines at the file's end. The last line is empty unless a crash cut off a line."""
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, LOOK_BACK, max(0, size - LOOK_BACK)).split(b"\n")


def _end_of_earlier_file(path: Path, descriptor: int) -> list[bytes]:
    """Return the whole lines at the end of the latest earlier day, while today's file is short."""
    if os.fstat(descriptor).st_size >= LOOK_BACK:
        return []
    latest = max(path.parent.glob(f"{path.stem}-*{path.suffix}"), default=None)
    if latest is None:
        return []
    with latest.open("rb") as file:
        return _end_of(file.fileno())[:-1]


def check_writable(folder: Path) -> None:
    """Raise NotReady if the rights do not allow to create a file in this folder, or an absent folder itself."""
    existing = folder.absolute()
    while not existing.exists():
        existing = existing.parent
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise NotReady(f"{folder} cannot be written: {existing} is no folder that this user may write to")


class FilePusher:
    """Pusher that writes every notice once, as a line of JSON to the file and as a sentence to the log."""

    name = "file"

    def __init__(self, path: Path) -> None:
        self._path = path

    def send(self, notice: AnyNotice) -> None:
        if append_once(self._path, notice.model_dump_json(), notice.notice_id):
            if isinstance(notice, Notice):
                logger.info("%s", _sentence(notice), extra={"run_id": notice.run_id})
            else:
                logger.info("%s", _sentence_about_flow(notice))

    def check(self) -> str:
        check_writable(self._path.parent)
        return f"{self.name} {self._path}"


def _sentence(notice: Notice) -> str:
    tasks = ", ".join(f"{count} {status}" for status, count in notice.tasks.items() if count)
    reason = f" ({notice.reason})" if notice.reason else ""
    explanation = f"; {notice.explanation.text}" if notice.explanation else ""
    return f"{notice.crawler} {notice.kind}: {notice.status}{reason}; tasks: {tasks or 'none'}{explanation}"


def _sentence_about_flow(notice: FlowNotice) -> str:
    members = ", ".join(f"{count} {state}" for state, count in notice.counts.items())
    failures = "".join(f"; {failure.path}: {failure.reason or failure.state}" for failure in notice.failures)
    return f"flow {notice.flow_id} ended: {notice.state}; members: {members or 'none'}{failures}"
