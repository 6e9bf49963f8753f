"""How is a file opened where a crawl may have put something else: a pipe, a link, a device?

Whoever opens a pipe waits for its other end, for ever if there is none. A link leads anywhere.
"""

import errno
import os
import stat
from pathlib import Path

SOMETHING_ELSE = (errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.EOPNOTSUPP, errno.EISDIR)


class NotRegular(OSError):
    """There is something of this name, and it is not a regular file."""


def open_regular(path: str | Path, flags: int = os.O_RDONLY, *, folder: int | None = None) -> int:
    """The descriptor of a regular file, opened without waiting for anybody and without following a link."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666, dir_fd=folder)
    except OSError as error:
        if error.errno in SOMETHING_ELSE:
            raise _not_regular(error.errno, path) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _not_regular(errno.EOPNOTSUPP, path)
    os.set_blocking(descriptor, True)  # a program that gets it as its output expects that
    return descriptor


def _not_regular(number: int, path: str | Path) -> NotRegular:
    return NotRegular(number, "not a regular file", str(path))
