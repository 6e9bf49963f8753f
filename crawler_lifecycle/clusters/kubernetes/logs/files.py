"""Read and write logs among a run's files, in a folder of their own (`RUN/logs/LOG`), and mirror long logs.

Crawls can write there too, and could put a link in place of a folder or a log. So every part of a path is opened on its
own, relative to the open folder before the part, and no link is followed.

`Mirrors` bring a reader new lines of a long log in the cluster without fetching the whole log.
"""

import errno
import os
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from crawler_lifecycle.clusters.adapters.log_files import CHUNK, characters, chunk_of
from crawler_lifecycle.clusters.adapters.regular_files import NotRegular, open_regular
from crawler_lifecycle.clusters.kubernetes.http.answers import ApiFailed, Missing
from crawler_lifecycle.clusters.ports import LogChunk

SHORTEST_MIRRORED = 1 << 20  # bytes; shorter logs get no mirror, and are fetched whole
MOST_MIRRORS = 32  # a mirror needs a connection, a thread and a file; further logs are fetched whole
IDLE_SECONDS = 30.0  # a mirror without a reader for longer ends with the next piece from the stream
CATCH_UP_SECONDS = 15.0  # a mirror that takes longer to reach its reader's offset is not used any more
COMPARED_BYTES = 1 << 12  # before an offset, to see whether two files hold the same log
MOST_OFFSETS = 1000  # per mirror, for its latest readers

OpenStream = Callable[[], Generator[bytes]]
# errors for a path that leads through a link, a foreign file or a folder without access
FOREIGN_PLACE = (errno.ENOTDIR, errno.ELOOP, errno.EMLINK, errno.EISDIR, errno.EACCES, errno.EPERM)


@dataclass(frozen=True, slots=True)
class Position:
    """A position is a reader's offset in a log, with the bytes just before the offset."""

    offset: int
    before: bytes = b""


class Mirrors:
    """The process's mirrors by pod uid.

    The API cannot begin a log at a byte, but can stream new lines as they come. So a mirror is a file of ours that a
    stream fills, from the log's beginning on, for as long as a reader comes back. The file has no name, and disappears
    with its process.

    A reader continues at an offset, counted in bytes. The node begins a new file for a growing log: a stream continues
    across the change and counts all bytes since its beginning, while a fetch counts the bytes in the new file. So the
    same offset may mean different bytes. A mirror accepts an offset if the mirror gave out the offset itself, or has
    the same bytes before the offset as the fetched log.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._mirrors = dict[str, _Mirror]()

    def read(self, uid: str, offset: int) -> LogChunk | None:
        """Return the next chunk; None if the log has no mirror, or the mirror does not accept the offset."""
        with self._lock:
            mirror = self._mirrors.get(uid)
        return mirror.read(offset) if mirror else None

    def begin(self, uid: str, position: Position, open_stream: OpenStream) -> None:
        """Begin a mirror for a reader at the position; an existing mirror accepts the reader if its bytes are equal."""
        with self._lock:
            self._mirrors = {pod_uid: mirror for pod_uid, mirror in self._mirrors.items() if not mirror.has_ended}
            if mirror := self._mirrors.get(uid):
                mirror.accept(position)
            elif len(self._mirrors) < MOST_MIRRORS:
                with suppress(OSError, RuntimeError):  # no room, file or thread is free: the log is fetched whole
                    self._mirrors[uid] = _Mirror(position, open_stream)


class _Mirror:
    def __init__(self, first_reader: Position, open_stream: OpenStream) -> None:
        self.has_ended = False
        self._first_reader = first_reader
        self._began_at = self._last_read_at = time.monotonic()
        self._size = 0  # bytes of the log in the file
        self._offsets = dict.fromkeys([first_reader.offset])  # accepted offsets, the latest used last
        self._lock = threading.Lock()
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (its thread closes it)
        threading.Thread(target=self._fill, args=(open_stream,), name="log", daemon=True).start()

    def read(self, offset: int) -> LogChunk | None:
        """Return the next chunk, empty while the stream has brought no bytes after the offset; None: fetch the log."""
        with self._lock:
            if self.has_ended or offset not in self._offsets:
                return None
            self._last_read_at = time.monotonic()
            if self._size < offset:  # the stream begins with the bytes that the reader has already
                is_too_slow = self._last_read_at - self._began_at > CATCH_UP_SECONDS
                return None if is_too_slow else LogChunk("", offset, ended=False)
            text, length = characters(os.pread(self._file.fileno(), CHUNK, offset), final=False)
            self._accept_offset(offset + length)
        return LogChunk(text, offset + length, ended=False)

    def accept(self, position: Position) -> None:
        """Accept the position's offset if the file has the same bytes as the first reader's log and this reader's."""
        with self._lock:
            if not self.has_ended and self._has_bytes_of(self._first_reader) and self._has_bytes_of(position):
                self._accept_offset(position.offset)

    def _has_bytes_of(self, position: Position) -> bool:
        """Return whether the file reaches to the position, and has the same bytes before its offset."""
        length = len(position.before)
        if self._size < position.offset:
            return False
        return os.pread(self._file.fileno(), length, position.offset - length) == position.before

    def _accept_offset(self, offset: int) -> None:
        """Remember an offset as the latest, and drop the offset that was unused for longest."""
        self._offsets.pop(offset, None)
        self._offsets[offset] = None
        if len(self._offsets) > MOST_OFFSETS:
            del self._offsets[next(iter(self._offsets))]

    def _fill(self, open_stream: OpenStream) -> None:
        """Copy the stream until it fails or ends, or until `_append` ends the mirror. The thread runs this method."""
        try:
            with suppress(Missing, ApiFailed, OSError), closing(open_stream()) as pieces:
                for piece in pieces:
                    with self._lock:
                        goes_on = self._append(piece)
                    if not goes_on:
                        break
        finally:
            with self._lock:
                self.has_ended = True
                self._file.close()

    def _append(self, piece: bytes) -> bool:
        """Write the piece. Return False if the mirror must end: other file, full disk, or no reader for long."""
        was_behind = self._size < self._first_reader.offset
        written = self._file.write(piece)
        self._size += written
        has_caught_up = was_behind and self._size >= self._first_reader.offset
        if has_caught_up and not self._has_bytes_of(self._first_reader):
            return False
        return written == len(piece) and time.monotonic() - self._last_read_at <= IDLE_SECONDS


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
