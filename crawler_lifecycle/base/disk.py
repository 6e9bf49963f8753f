"""Check that an installation's disks take writes and have room."""

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.metrics import DISK_FREE

PROBE = bytes(256 * 1024)  # content of a test file; an empty file would reveal no quota
ENOUGH = 64 << 20  # bytes; a disk with less free space is reported


def check_room(folders: Iterable[Path]) -> str:
    """Return a line with the free space of every existing folder, after writing a test file there.

    The free space alone reveals neither quotas nor errors. Raise NotReady if a file cannot be written in a folder, or
    if the folder's disk has less free space than ENOUGH. Absent folders are left out.
    """
    existing = [folder for folder in dict.fromkeys(folders) if _exists(folder)]
    free = {folder: _room_in(folder) for folder in existing}
    return ", ".join(f"{folder}: {room >> 20} MiB free" for folder, room in free.items()) or "no folder of this machine"


def _exists(folder: Path) -> bool:
    """Return whether the folder exists. Raise NotReady if a failing disk or a missing right prevents the answer."""
    try:
        return folder.is_dir()
    except OSError as error:
        raise NotReady(f"{folder} cannot be read ({error.strerror or error}): check its disk and its rights") from error


def _room_in(folder: Path) -> int:
    """Return the free bytes, after writing a test file. Raise NotReady if the write fails, or for less than ENOUGH."""
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(PROBE)
            probe.flush()
            os.fsync(probe.fileno())
        free = os.statvfs(folder)
    except OSError as error:
        raise NotReady(f"nothing can be written in {folder} ({error.strerror or error}): make room there") from error
    room = free.f_bavail * free.f_frsize
    DISK_FREE.labels(folder.name).set(room)
    if room < ENOUGH:
        raise NotReady(f"only {room >> 20} MiB are free in {folder}: make room there before nothing can be written")
    return room
