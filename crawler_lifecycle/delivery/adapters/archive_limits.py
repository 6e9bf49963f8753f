"""Limits of an archive. What exceeds a limit is left out, file by file, so that every archive comes to an end.

A file counts by the bytes that the disk holds for it. Holes hold none, but every zero in them is read and hashed: a
file of 16 TiB of holes would take hours. So the sum of all holes has the same limit as the sum of all bytes on disk.
"""

import os
from dataclasses import dataclass

from crawler_lifecycle.settings.outside import ExportSettings

GIB = 1024**3
BLOCK = 512  # bytes; the unit of `st_blocks` on every system


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
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
