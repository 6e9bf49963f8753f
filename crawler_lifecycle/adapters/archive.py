"""Stream a folder into a zip, whatever the folder contains.

The zip has the folder's files under `files/`, and a `manifest.json`. The manifest lists every file with its size and
SHA-256, and every entry that was left out: links, special files, and entries that cannot be read or named.

The same folder gives the same bytes. Memory grows neither with the files' size nor with their number, except for the
names in one folder at a time.
"""

import errno
import hashlib
import json
import os
import stat
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, cast

from crawler_lifecycle.adapters.regular_files import open_regular
from crawler_lifecycle.adapters.zip_parts import RULE, Measured, Sink, archived_name, keep_entries_in
from crawler_lifecycle.ports import Archive, Progress

CHUNK = 1024 * 1024  # bytes read at once
NEEDS_ZIP64 = 1024**3  # bytes; a larger file is begun in the format zip64: otherwise `zipfile` fails at 2 GiB
FIRST_ZIP_TIME = (1980, 1, 1, 0, 0, 0)  # a zip can hold no earlier time, and no time after LAST_ZIP_YEAR
LAST_ZIP_YEAR = 2107
LONGEST_NAME = 0xFFFF  # bytes; an entry with a longer name in the zip is left out
REPORT_SECONDS = 1.0  # while no bytes are copied, the progress is reported once in this time
MOST_SHOWN = 5  # the run's timeline names at most 5 of the entries left out
LONGEST_SHOWN = 100  # characters; the rest of a longer name is cut off
DEEPEST = 300  # a folder inside 300 folders is left out: every folder on the way takes an open file and a nested call
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


@contextmanager
def archive_writer(sink: Sink, progress: Progress) -> "Iterator[ArchiveWriter]":
    """Yield the writer of a zip. The zip is complete and measured when the block ends without an error."""
    measured = Measured(sink)
    with (
        tempfile.TemporaryFile() as entries,
        zipfile.ZipFile(cast("IO[bytes]", measured), "w", zipfile.ZIP_DEFLATED) as target,
        tempfile.TemporaryFile() as files,
        tempfile.TemporaryFile() as left_out,
    ):
        keep_entries_in(entries, target)  # instead of in memory, where they would grow with the number of files
        archive = ArchiveWriter(target, _Manifest(files, left_out), progress, measured)
        yield archive
        archive.add_manifest()


class ArchiveWriter:
    """The writer adds a folder's files to the zip, and keeps a list of added files and of entries left out."""

    def __init__(self, target: zipfile.ZipFile, manifest: "_Manifest", progress: Progress, measured: Measured) -> None:
        self._zip = target
        self._manifest = manifest
        self._progress = progress
        self._reported_at = float("-inf")
        self._measured = measured
        self.files = 0
        self.bytes = 0

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

        A folder that is absent or not readable adds nothing.
        """
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in REASONS_LEFT_OUT:
                raise
            return
        self._add_content(Path(), descriptor)

    def _add_content(self, inside: Path, descriptor: int) -> None:
        """Add the open folder's files, then its folders. `inside` is the folder's path in the archived folder.

        Every file and folder is opened relative to its own folder, since a whole path may be too long to be opened.
        """
        try:
            files, folders = self._sorted_entries(descriptor)
            for name in files:
                self._add_file(str(inside / name), name, descriptor)
            for name in folders:
                subfolder = self._open_folder(inside / name, name, descriptor)
                if subfolder is not None:
                    self._add_content(inside / name, subfolder)
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

    def _open_folder(self, path: Path, name: str, folder: int) -> int | None:
        """Return the open folder `name` in `folder`, or None after noting the folder as left out."""
        self._report_if_silent()
        escaped = archived_name(str(path))
        if len(path.parts) > DEEPEST:
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
        if len(_zip_path(escaped).encode()) > LONGEST_NAME:
            self._manifest.add_left_out(escaped, "the name is too long for a zip")
            return
        try:
            descriptor = open_regular(name, folder=folder)
        except OSError as error:
            if error.errno not in REASONS_LEFT_OUT:
                raise
            self._manifest.add_left_out(escaped, REASONS_LEFT_OUT[error.errno])
            return
        with os.fdopen(descriptor, "rb", buffering=0) as source:
            self._copy(escaped, source)

    def _copy(self, escaped: str, source: IO[bytes]) -> None:
        """Copy the file into the zip, and note in the manifest whether the file changed in the meantime."""
        before = os.fstat(source.fileno())
        digest = hashlib.sha256()
        copied = 0
        with self._zip.open(
            _entry(_zip_path(escaped), before), "w", force_zip64=before.st_size > NEEDS_ZIP64
        ) as target:
            # stop at the size from the beginning: otherwise a file that always grows would never end
            while copied < before.st_size and (chunk := source.read(min(CHUNK, before.st_size - copied))):
                target.write(chunk)
                digest.update(chunk)
                copied += len(chunk)
                self.bytes += len(chunk)
                self._progress(self.files, self.bytes)
        self.files += 1
        self._progress(self.files, self.bytes)
        after = os.fstat(source.fileno())
        is_same_state = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
        has_changed = not is_same_state or copied != before.st_size
        self._manifest.add_file(escaped, copied, digest.hexdigest(), changed=has_changed)

    def add_manifest(self) -> None:
        entry = zipfile.ZipInfo("manifest.json", FIRST_ZIP_TIME)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (stat.S_IFREG | 0o644) << 16
        with self._zip.open(entry, "w", force_zip64=True) as target:
            for chunk in self._manifest.chunks(self.files, self.bytes):
                target.write(chunk)
                self._report_if_silent()


class _Manifest:
    """The manifest, kept in temporary files until the archive's end because the manifest may be long."""

    def __init__(self, files: IO[bytes], left_out: IO[bytes]) -> None:
        self._files = files
        self._entries_left_out = left_out
        self.left_out = 0
        self.first_left_out: list[str] = []

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
        # RULE tells readers of the manifest how names are escaped
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


def _zip_path(escaped: str) -> str:
    return f"files/{escaped}"


def _entry(name: str, status: os.stat_result) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _zip_time(status.st_mtime))
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (stat.S_IFREG | stat.S_IMODE(status.st_mode)) << 16
    return entry


def _zip_time(seconds: float) -> tuple[int, int, int, int, int, int]:
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
