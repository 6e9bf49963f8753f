"""Append lines to a JSON lines file, durably and from several processes."""

import fcntl
import os
from pathlib import Path

from crawler_lifecycle.errors import NotReady, TemporaryError

LOOK_BACK = 1024 * 1024  # the identity is searched for in so many last bytes of the file


def append_once(path: Path, line: str, identity: str) -> bool:
    """Append the line durably unless one of the latest lines contains its identity. Return whether it was appended."""
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
    latest = os.pread(descriptor, LOOK_BACK, max(0, size - LOOK_BACK))
    # only whole lines count: a line cut off by a crash is useless to a reader
    if any(identity.encode() in earlier_line for earlier_line in latest.split(b"\n")[:-1]):
        return False
    cut_off = latest and not latest.endswith(b"\n")
    content = (b"\n" if cut_off else b"") + line.encode() + b"\n"
    if os.write(descriptor, content) != len(content):
        raise OSError(0, "the disk is full")
    os.fsync(descriptor)
    return True


def check_writable(folder: Path) -> None:
    """Raise NotReady if a file cannot be created in this folder, or the folder itself cannot."""
    existing = folder.absolute()
    while not existing.exists():
        existing = existing.parent
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise NotReady(f"{folder} cannot be written: {existing} is no folder that this user may write to")
