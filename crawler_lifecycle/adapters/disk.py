"""Check that an installation's disks take writes and have room."""

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from crawler_lifecycle.errors import NotReady

PROBE = bytes(256 * 1024)
ENOUGH = 64 << 20  # bytes


def check_room(folders: Iterable[Path]) -> str:
    """Write a file in every existing folder: free space alone reveals neither quotas nor errors.

    NotReady where a folder takes no file, or has so little room that the next run may fill the folder.
    """
    there = [folder for folder in dict.fromkeys(folders) if _is_there(folder)]
    free = {folder: _room_in(folder) for folder in there}
    return ", ".join(f"{folder}: {room >> 20} MiB free" for folder, room in free.items()) or "no folder of this machine"


def _is_there(folder: Path) -> bool:
    """Return whether the folder exists. A failing disk or a missing right says nothing about that."""
    try:
        return folder.is_dir()
    except OSError as error:
        raise NotReady(f"{folder} cannot be read ({error.strerror or error}): check its disk and its rights") from error


def _room_in(folder: Path) -> int:
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(PROBE)
            probe.flush()
            os.fsync(probe.fileno())
        free = os.statvfs(folder)
    except OSError as error:
        raise NotReady(f"nothing can be written in {folder} ({error.strerror or error}): make room there") from error
    room = free.f_bavail * free.f_frsize
    if room < ENOUGH:
        raise NotReady(f"only {room >> 20} MiB are free in {folder}: make room there before nothing can be written")
    return room
