"""Stream a folder into a zip, whatever the folder contains.

The zip has the folder's files under `files/`, and a `manifest.json`. The manifest lists every file with its size and
SHA-256, and every entry that was left out: links, special files, entries that cannot be read or named, and files beyond
the archive's limits.

The same folder gives the same bytes, on the same kind of processor. Memory grows neither with the files' size nor with
their number, except for the names in one folder at a time.
"""

import errno
import hashlib
import json
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING

from crawler_lifecycle.clusters.adapters.regular_files import open_to_read
from crawler_lifecycle.delivery.adapters.zip_writer import (
    RULE,
    Entry,
    Measured,
    Sink,
    ZipTime,
    ZipWriter,
    archived_name,
)
from crawler_lifecycle.delivery.ports import Archive, OnProgress
from crawler_lifecycle.settings.outside import ExportSettings

if TYPE_CHECKING:
    from hashlib import _Hash

GIB = 1024**3
BLOCK = 512  # bytes; the unit of `st_blocks` on every system
MOST_SHOWN = 5  # the run's timeline names at most 5 of the entries left out
LONGEST_SHOWN = 100  # characters; the rest of a longer name is cut off
FRAME = 1024  # bytes; the manifest without its lists is shorter
CHUNK = 1024 * 1024  # bytes read at once; a file that is no larger is read whole
FIRST_ZIP_TIME: ZipTime = (1980, 1, 1, 0, 0, 0)  # a zip can hold no earlier time, and no time after LAST_ZIP_YEAR
LAST_ZIP_YEAR = 2107
LONGEST_NAME = 0xFFFF  # bytes; an entry with a longer name in the zip is left out
REPORT_SECONDS = 1.0  # while no bytes are copied, the progress is reported once in this time
DEEPEST = 300  # a folder inside 300 folders is left out: every folder on the way takes an open file and a nested call
MANIFEST, MANIFEST_MODE = b"manifest.json", stat.S_IFREG | 0o644
# error numbers of entries that are left out, with the reason in the manifest; any other error ends the archive
REASONS_LEFT_OUT = {
    errno.ENOENT: "vanished",
    errno.ENOTDIR: "vanished",  # a file has replaced the folder since the listing
    errno.ELOOP: "link",
    errno.EMLINK: "link",
    errno.EACCES: "not readable",
    errno.EPERM: "not readable",
    errno.ENXIO: "special file",
    errno.EOPNOTSUPP: "special file",
}
ABSENT = (errno.ENOENT, errno.ENOTDIR)


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """Limits of an archive. Files beyond a limit are left out, file by file, so that every archive comes to an end.

    A file counts by the bytes that the disk holds for it. Holes hold none, but every zero in them is read and hashed: a
    file of 16 TiB of holes would take hours. So the sum of all holes has the same limit as the sum of all bytes on
    disk.
    """

    bytes: int
    files: int

    @classmethod
    def from_settings(cls, settings: ExportSettings) -> "ArchiveLimits":
        return cls(bytes=round(settings.largest_gib * GIB), files=settings.most_files)


DEFAULT_LIMITS = ArchiveLimits.from_settings(ExportSettings())


class Room:
    """The room that is left in an archive."""

    def __init__(self, limits: ArchiveLimits) -> None:
        self._limits = limits
        self._files = limits.files
        self._bytes = limits.bytes
        self._holes = limits.bytes

    def refusal_of_one_more(self) -> str | None:
        """Return why no further file fits; None if a file may fit."""
        if self._files:
            return None
        return f"beyond the limit of {self._limits.files:,} files"

    def take(self, status: os.stat_result) -> str | None:
        """Take the file's room, and return None; return the reason if the file does not fit."""
        allocated = min(status.st_size, status.st_blocks * BLOCK)
        holes = status.st_size - allocated
        if allocated > self._bytes or holes > self._holes:
            subject = "its holes are " if allocated <= self._bytes else ""
            return f"{subject}beyond the limit of {self._limits.bytes / GIB:.3g} GiB"
        self._files -= 1
        self._bytes -= allocated
        self._holes -= holes
        return None


class Manifest:
    """The manifest, kept in temporary files until the archive's end because the manifest may be long."""

    def __init__(self, files: IO[bytes], left_out: IO[bytes]) -> None:
        self._files = files
        self._entries_left_out = left_out
        self.left_out = 0
        self.first_left_out: list[str] = []

    @property
    def largest(self) -> int:
        """The manifest's size in bytes, and some more for its frame."""
        return self._files.tell() + self._entries_left_out.tell() + FRAME

    def add_file(self, name: str, size: int, sha256: str, *, changed: bool) -> None:
        item: dict[str, object] = {"name": name, "size": size, "sha256": sha256}
        _append_item(self._files, item | {"changed_while_read": True} if changed else item)

    def add_left_out(self, name: str, reason: str) -> None:
        _append_item(self._entries_left_out, {"name": name, "reason": reason})
        self.left_out += 1
        if self.left_out <= MOST_SHOWN:
            self.first_left_out.append(f"{name[:LONGEST_SHOWN]} ({reason})")

    def chunks(self, files: int, size: int) -> Iterator[bytes]:
        """Yield the manifest's JSON; `files` and `size` are the number of files and the sum of their bytes."""
        # RULE explains to readers of the manifest how names are escaped
        yield f'{{"count": {files},\n"bytes": {size},\n"names": {json.dumps(RULE)},\n"files": ['.encode()
        yield from _chunks_of(self._files)
        yield b'],\n"skipped": ['
        yield from _chunks_of(self._entries_left_out)
        yield b"]}\n"


def _append_item(items: IO[bytes], item: dict[str, object]) -> None:
    items.write((b",\n" if items.tell() else b"\n") + json.dumps(item, ensure_ascii=False).encode())


def _chunks_of(items: IO[bytes]) -> Iterator[bytes]:
    items.seek(0)
    while chunk := items.read(CHUNK):
        yield chunk


@contextmanager
def archive_writer(
    sink: Sink, ended_at: datetime, progress: OnProgress, limits: ArchiveLimits = DEFAULT_LIMITS
) -> "Iterator[ArchiveWriter]":
    """Yield the writer of a zip. The zip is complete and measured when the block ends without an error.

    The manifest has the time `ended_at`, and not the present time: a repeated export has to give the same bytes.
    """
    measured = Measured(sink)
    with (
        tempfile.TemporaryFile() as directory,
        tempfile.TemporaryFile() as files,
        tempfile.TemporaryFile() as left_out,
        ThreadPoolExecutor(1, thread_name_prefix="hash") as hasher,
    ):
        target = ZipWriter(measured, directory)
        archive = ArchiveWriter(target, Manifest(files, left_out), progress, measured, Room(limits), hasher)
        yield archive
        archive.add_manifest(ended_at)
        target.close()


class ArchiveWriter:
    """The writer adds a folder's files to the zip, and keeps a list of added files and of entries left out."""

    def __init__(
        self,
        target: ZipWriter,
        manifest: Manifest,
        progress: OnProgress,
        measured: Measured,
        room: Room,
        hasher: Executor,
    ) -> None:
        self._zip = target
        self._manifest = manifest
        self._progress = progress
        self._reported_at = float("-inf")
        self._measured = measured
        self._room = room
        self._hasher = hasher
        self.files = 0
        self.bytes = 0

    def is_worth_keeping(self, *, may_lack_files: bool) -> bool:
        """Return whether the archive has a file, or, if files may be lacking, whether its manifest names an entry."""
        return self.files > 0 or (may_lack_files and self._manifest.left_out > 0)

    def written_to(self, location: str) -> Archive:
        """Return the figures for the finished archive at this location."""
        size, sha256 = self._measured.size, self._measured.sha256()
        return Archive(
            location=location,
            files=self.files,
            bytes=self.bytes,
            size=size,
            sha256=sha256,
            left_out=self._manifest.left_out,
            first_left_out=tuple(self._manifest.first_left_out),
        )

    def add_folder(self, folder: Path) -> None:
        """Add the folder, sorted, so that the same folder gives the same archive.

        A folder that is absent adds nothing. A folder that is not readable is left out under the name `.`.
        """
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in REASONS_LEFT_OUT:
                raise
            if error.errno not in ABSENT:
                self._manifest.add_left_out(".", REASONS_LEFT_OUT[error.errno])
            return
        self._add_content("", descriptor)

    def _add_content(self, inside: str, descriptor: int) -> None:
        """Add the open folder's files, then its folders. `inside` begins their paths: empty, or ends with a slash.

        Every file and folder is opened relative to its own folder, since a whole path may be too long to be opened.
        """
        try:
            files, folders = self._sorted_entries(descriptor)
            for name in files:
                self._add_file(inside + name, name, descriptor)
            for name in folders:
                subfolder = self._open_folder(inside + name, name, descriptor)
                if subfolder is not None:
                    self._add_content(f"{inside}{name}/", subfolder)
        finally:
            os.close(descriptor)

    def _sorted_entries(self, folder: int) -> tuple[list[str], list[str]]:
        """Return the names of files and of folders. A link counts as a file, and is left out at its opening."""
        files, folders = list[str](), list[str]()
        with os.scandir(folder) as entries:
            for entry in entries:
                self._report_if_silent()
                (folders if _is_folder(entry) else files).append(entry.name)
        return sorted(files), sorted(folders)

    def _open_folder(self, path: str, name: str, folder: int) -> int | None:
        """Return the open folder `name` in `folder`, or None after noting the folder as left out."""
        self._report_if_silent()
        escaped = archived_name(path)
        if path.count("/") >= DEEPEST:
            self._manifest.add_left_out(escaped, "too deep")
            return None
        try:
            return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        except OSError as error:
            if error.errno not in REASONS_LEFT_OUT:
                raise
            self._manifest.add_left_out(escaped, REASONS_LEFT_OUT[error.errno])
            return None

    def _report_if_silent(self) -> None:
        """Report the progress once in REPORT_SECONDS: a million links give no other sign of progress."""
        now = time.monotonic()
        if now - self._reported_at >= REPORT_SECONDS:
            self._reported_at = now
            self._progress(self.files, self.bytes)

    def _add_file(self, path: str, name: str, folder: int) -> None:
        """Add the file `name` in `folder`, or note the file as left out."""
        self._report_if_silent()
        escaped = archived_name(path)
        reason = self._room.refusal_of_one_more()
        if len(_zip_path(escaped)) > LONGEST_NAME:
            reason = "the name is too long for a zip"
        if reason is None:
            reason = self._open_and_copy(escaped, name, folder)
        if reason is not None:
            self._manifest.add_left_out(escaped, reason)

    def _open_and_copy(self, escaped: str, name: str, folder: int) -> str | None:
        """Copy the file into the zip, and return None; return the reason if the file is left out."""
        try:
            descriptor, status = open_to_read(name, folder)
        except OSError as error:
            if error.errno not in REASONS_LEFT_OUT:
                raise
            return REASONS_LEFT_OUT[error.errno]
        try:
            reason = self._room.take(status)
            if reason is None:
                self._copy(escaped, descriptor, status)
            return reason
        finally:
            os.close(descriptor)

    def _copy(self, escaped: str, descriptor: int, before: os.stat_result) -> None:
        """Copy the file into the zip, and note in the manifest whether the file changed in the meantime."""
        entry = Entry(_zip_path(escaped), _zip_time(before.st_mtime), stat.S_IFREG | stat.S_IMODE(before.st_mode))
        bytes_before = self.bytes
        # end at the size from the beginning: otherwise a file that always grows would never end
        if before.st_size <= CHUNK:
            content = _read_whole(descriptor, before.st_size)
            digest = hashlib.sha256(content)
            self._zip.add(entry, content)
            self.bytes += len(content)
        else:
            digest = hashlib.sha256()
            self._zip.add_stream(entry, self._chunks(descriptor, before.st_size, digest), before.st_size)
        self.files += 1
        self._progress(self.files, self.bytes)
        after, copied = os.fstat(descriptor), self.bytes - bytes_before
        is_same_state = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
        has_changed = not is_same_state or copied != before.st_size
        self._manifest.add_file(escaped, copied, digest.hexdigest(), changed=has_changed)

    def _chunks(self, descriptor: int, size: int, digest: "_Hash") -> Iterator[memoryview]:
        """Yield the file's chunks, all in the same memory. A chunk is compressed while another thread hashes it."""
        memory = memoryview(bytearray(CHUNK))
        with os.fdopen(descriptor, "rb", buffering=0, closefd=False) as source:
            while size and (count := source.readinto(memory[:size])):
                chunk = memory[:count]
                hashing = self._hasher.submit(digest.update, chunk)
                yield chunk
                hashing.result()
                size -= count
                self.bytes += count
                self._progress(self.files, self.bytes)

    def add_manifest(self, at: datetime) -> None:
        entry = Entry(MANIFEST, _zip_time(at.timestamp()), MANIFEST_MODE)
        chunks = self._manifest.chunks(self.files, self.bytes)
        self._zip.add_stream(entry, self._reported(chunks), self._manifest.largest)

    def _reported(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            yield chunk
            self._report_if_silent()


def _read_whole(descriptor: int, size: int) -> bytes:
    content = os.read(descriptor, size)
    while len(content) < size and (more := os.read(descriptor, size - len(content))):
        content += more
    return content


def _zip_path(escaped: str) -> bytes:
    return f"files/{escaped}".encode()


def _zip_time(seconds: float) -> ZipTime:
    """Return the time as a zip holds times; FIRST_ZIP_TIME for a time outside the zip's range."""
    try:
        at = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):  # outside the range for dates
        return FIRST_ZIP_TIME
    if not FIRST_ZIP_TIME[0] <= at.year <= LAST_ZIP_YEAR:
        return FIRST_ZIP_TIME
    return at.year, at.month, at.day, at.hour, at.minute, at.second


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether the entry is a folder. An unreadable entry counts as a file: opening the file shows the reason."""
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError as error:
        if error.errno not in REASONS_LEFT_OUT:
            raise
        return False
