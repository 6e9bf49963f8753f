"""Removal for files. A missing file counts as removed; no link is followed."""

import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from uuid import UUID

from crawler_lifecycle.errors import TemporaryError

ARCHIVE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(-[0-9]+)?\.zip")
EARLIER_DAY = re.compile(r"(events|notices)-([0-9]{4}-[0-9]{2}-[0-9]{2})\.jsonl")
LOGS = "logs"  # folder with the kept logs among a run's files


def run_uids_in(folder: Path) -> Iterator[str]:
    """Yield the run_uids with a folder here."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(ValueError):
                if str(UUID(entry.name)) == entry.name:
                    yield entry.name


def size_of(folder: Path) -> int:
    """Sum up the regular files in the folder and below, in bytes."""
    total = 0
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    total += size_of(Path(entry.path))
                elif stat.S_ISREG(status.st_mode):
                    total += status.st_size
    return total


def has_logs(files: Path, run_uid: str) -> bool:
    folder = files / run_uid
    return not folder.is_symlink() and (folder / LOGS).is_dir() and not (folder / LOGS).is_symlink()


def remove_logs(files: Path, run_uid: str) -> int:
    """Remove the folder with the run's kept logs. Return its bytes."""
    return _remove(files / run_uid, LOGS)


def remove_folder(parent: Path, run_uid: str) -> int:
    """Remove the run's folder in the parent. Return its bytes."""
    return _remove(parent, run_uid)


def _remove(parent: Path, name: str) -> int:
    """Remove the folder. A crawl may have replaced the parent by a link, and the link must not lead outside."""
    size = size_of(parent / name)
    try:
        descriptor = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except OSError as error:
        raise TemporaryError(f"{parent} cannot be opened: {error.strerror}") from error
    try:
        shutil.rmtree(name, dir_fd=descriptor)
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except OSError as error:
        raise TemporaryError(f"{parent / name} cannot be removed: {error.strerror}") from error
    finally:
        os.close(descriptor)
    return size


def old_archives(exports: Path, before: datetime) -> Iterator[tuple[Path, int]]:
    """Yield the archives from before the moment, with their sizes."""
    yield from ((path, size) for path, size, written_at in _files(exports, ARCHIVE) if written_at < before.timestamp())


def old_days(exports: Path, before: datetime) -> Iterator[tuple[Path, int]]:
    """Yield the files for days before the moment, with their sizes."""
    for path, size, _ in _files(exports, EARLIER_DAY):
        match = EARLIER_DAY.fullmatch(path.name)
        if match is not None and match[2] < before.date().isoformat():
            yield path, size


def remove_file(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise TemporaryError(f"{path} cannot be removed: {error.strerror}") from error


def _files(folder: Path, name: re.Pattern[str]) -> Iterator[tuple[Path, int, float]]:
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if name.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                yield Path(entry.path), status.st_size, status.st_mtime
