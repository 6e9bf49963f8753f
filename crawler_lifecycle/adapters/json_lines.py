"""Append lines to a JSON lines file, durably and from several processes."""

import fcntl
import os
from pathlib import Path

from crawler_lifecycle.errors import NotReady, TemporaryError

LOOK_BACK = 1024 * 1024  # bytes at the file's end in which `append_once` searches for the line's identity


def append_once(path: Path, line: str, identity: str) -> bool:
    """Append the line durably unless one of the latest lines contains the identity, the line's unique id.

    Return whether the line was appended.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            return _append(descriptor, line, identity)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise TemporaryError(f"{path} cannot be written: {error.strerror}") from error


def _append(descriptor: int, line: str, identity: str) -> bool:
    """Append as `append_once` says, after a line break if the file ends with a line that a crash cut off."""
    size = os.fstat(descriptor).st_size
    file_end = os.pread(descriptor, LOOK_BACK, max(0, size - LOOK_BACK))
    *whole_lines, cut_off_line = file_end.split(b"\n")
    # the last line does not count if a crash cut off this line: no reader can use the line
    if any(identity.encode() in whole_line for whole_line in whole_lines):
        return False
    content = (b"\n" if cut_off_line else b"") + line.encode() + b"\n"
    if os.write(descriptor, content) != len(content):
        raise OSError(0, "the disk is full")
    os.fsync(descriptor)
    return True


def check_writable(folder: Path) -> None:
    """Raise NotReady if the rights do not allow to create a file in this folder, or an absent folder itself."""
    existing = folder.absolute()
    while not existing.exists():
        existing = existing.parent
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise NotReady(f"{folder} cannot be written: {existing} is no folder that this user may write to")
