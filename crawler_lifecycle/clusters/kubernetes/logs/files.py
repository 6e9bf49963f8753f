"""Read and write logs among a run's files, in a folder of their own: `RUN/logs/LOG`.

Crawls can write there too, and could put a link in place of a folder or a log. So every part of a path is opened by
itself, relative to the open folder before the part, and no link is followed.
"""

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from crawler_lifecycle.clusters.adapters.log_files import chunk_of
from crawler_lifecycle.clusters.adapters.regular_files import NotRegular, open_regular
from crawler_lifecycle.clusters.ports import LogChunk

# errors for a path that leads through a link, a foreign file or a folder without access
FOREIGN_PLACE = (errno.ENOTDIR, errno.ELOOP, errno.EMLINK, errno.EISDIR, errno.EACCES, errno.EPERM)


class InTheWay(OSError):
    """A foreign file has the place of a log or the log folder, and does not go away."""


def read(path: Path, offset: int) -> LogChunk | None:
    """Return a chunk of the log; None if the place is empty or foreign."""
    try:
        with _opened_folder(path.parent.parent) as run, _opened_folder(path.parent.name, run) as logs:
            file = os.fdopen(open_regular(path.name, folder=logs), "rb")
    except OSError as error:
        if not isinstance(error, NotRegular) and error.errno not in (errno.ENOENT, *FOREIGN_PLACE):
            raise
        return None
    with file:
        return chunk_of(file, offset, ended=True)


def exists(path: Path) -> bool:
    """Return whether the log's place has an entry of any kind; False if the way to the place is foreign."""
    try:
        with _opened_folder(path.parent.parent) as run, _opened_folder(path.parent.name, run) as logs:
            return _has_entry(logs, path.name)
    except OSError as error:
        if error.errno not in (errno.ENOENT, *FOREIGN_PLACE):
            raise
        return False


def write(path: Path, pieces: Iterable[bytes], *, overwrite: bool = True) -> None:
    """Write the whole log in a single step, or raise InTheWay. Without `overwrite` an existing file stays."""
    path.parent.parent.mkdir(parents=True, exist_ok=True)
    with _opened_folder(path.parent.parent) as run:
        with suppress(FileExistsError):
            os.mkdir(path.parent.name, dir_fd=run)
        try:
            with _opened_folder(path.parent.name, run) as logs:
                _write_in_folder(logs, path.name, pieces, overwrite=overwrite)
        except OSError as error:
            if error.errno not in FOREIGN_PLACE:
                raise
            raise InTheWay(f"{path.parent.name}/{path.name} cannot be written: {error.strerror}") from error


def write_once(path: Path, text: str) -> None:
    """Write a text into the run's folder, unless the file exists."""
    with _opened_folder(path.parent) as run:
        _write_in_folder(run, path.name, [text.encode()], overwrite=False)


def _write_in_folder(folder: int, name: str, pieces: Iterable[bytes], *, overwrite: bool) -> None:
    """Write a draft, and rename the finished draft: a crash leaves no half log under the name."""
    if not overwrite and _has_entry(folder, name):
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


def _has_entry(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


@contextmanager
def _opened_folder(folder: str | Path, parent: int | None = None) -> Iterator[int]:
    """Give the descriptor of a folder, named relative to the open parent folder. Refuse a link."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
