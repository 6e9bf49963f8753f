"""Read and write logs among a run's files. Crawls can write there too, so no step follows a link."""

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from crawler_lifecycle.adapters.log_files import chunk_of
from crawler_lifecycle.adapters.regular_files import NotRegular, open_regular
from crawler_lifecycle.ports import LogChunk

NO_ENTRY = (errno.ENOTDIR, errno.ELOOP, errno.EMLINK, errno.EISDIR, errno.EACCES, errno.EPERM)


class InTheWay(OSError):
    """A foreign file has the place of a log or of the log folder, and does not go away."""


def read(path: Path, offset: int) -> LogChunk | None:
    """Return a chunk of the log, or None without a log."""
    try:
        with _opened(path.parent.parent) as run, _opened(path.parent.name, run) as folder:
            file = os.fdopen(open_regular(path.name, folder=folder), "rb")
    except OSError as error:
        if not isinstance(error, NotRegular) and error.errno not in (errno.ENOENT, *NO_ENTRY):
            raise
        return None
    with file:
        return chunk_of(file, offset, ended=True)


def is_there(path: Path) -> bool:
    try:
        with _opened(path.parent.parent) as run, _opened(path.parent.name, run) as folder:
            return _is_there(folder, path.name)
    except OSError as error:
        if error.errno not in (errno.ENOENT, *NO_ENTRY):
            raise
        return False


def write(path: Path, pieces: Iterable[bytes], *, over: bool = True) -> None:
    """Write the log in a single step; `over` replaces an existing file, else an existing file stays."""
    path.parent.parent.mkdir(parents=True, exist_ok=True)
    with _opened(path.parent.parent) as run:
        with suppress(FileExistsError):
            os.mkdir(path.parent.name, dir_fd=run)
        try:
            with _opened(path.parent.name, run) as folder:
                _put(folder, path.name, pieces, over=over)
        except OSError as error:
            if error.errno not in NO_ENTRY:
                raise
            raise InTheWay(f"{path.parent.name}/{path.name} cannot be written: {error.strerror}") from error


def write_once(path: Path, text: str) -> None:
    """Write a text beside the folder of logs, unless the file exists."""
    with _opened(path.parent) as run:
        _put(run, path.name, [text.encode()], over=False)


def _put(folder: int, name: str, pieces: Iterable[bytes], *, over: bool) -> None:
    if not over and _is_there(folder, name):
        return
    draft = f".{name}.{os.getpid()}-{os.urandom(4).hex()}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(draft, dir_fd=folder)
        raise


def _is_there(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


@contextmanager
def _opened(folder: str | Path, within: int | None = None) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=within)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
