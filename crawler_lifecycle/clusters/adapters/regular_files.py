"""Safe opening of files and folders that a crawler may have replaced by a pipe, link or device.

A reader of a pipe would wait for a writer, possibly forever. A link may lead to any file of the machine.
"""

import errno
import os
import stat
from pathlib import Path

from crawler_lifecycle.errors import Refused, TemporaryError
from crawler_lifecycle.model.naming import checked_uid

# errors of `open` for links, pipes, devices and folders
OTHER_KINDS = (errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.EOPNOTSUPP, errno.EISDIR)


class NotRegular(OSError):
    """The name exists but is no regular file."""


def open_regular(path: str | Path, flags: int = os.O_RDONLY, *, folder: int | None = None) -> int:
    """Open a regular file without blocking and without following a link. Return the descriptor.

    `folder` is an open folder to which `path` is relative. Raise NotRegular for any other kind of file.
    """
    descriptor, _ = _open(path, flags, folder)
    os.set_blocking(descriptor, True)  # a program with this descriptor as its output expects blocking writes
    return descriptor


def open_to_read(name: str, folder: int) -> tuple[int, os.stat_result]:
    """Open a regular file in an open folder, as `open_regular` does. Return the descriptor and the file's status."""
    return _open(name, os.O_RDONLY, folder)


def _open(path: str | Path, flags: int, folder: int | None) -> tuple[int, os.stat_result]:
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666, dir_fd=folder)
    except OSError as error:
        if error.errno in OTHER_KINDS:
            raise _not_regular(error.errno, path) from error
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise _not_regular(errno.EOPNOTSUPP, path)
    return descriptor, status


def _not_regular(number: int, path: str | Path) -> NotRegular:
    return NotRegular(number, "not a regular file", str(path))


def files_of(folder: Path, run_uid: str) -> Path | None:
    """Return the folder with the run's files; None if there is no such folder. Raise Refused for a link."""
    files = folder / checked_uid(run_uid)
    try:
        if files.is_symlink():
            raise Refused(f"{files} is a link: only a real folder is exported")
        return files if files.is_dir() else None
    except OSError as error:
        raise TemporaryError(f"{files} cannot be read: {error}") from error
