"""A disk that can be full: a small file system in memory, mounted for the stack's state alone.

To mount needs the right to. Where neither this user nor `sudo` may, there is no small disk, and it is never full.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

MEBIBYTE = 1024 * 1024


@dataclass
class Disk:
    folder: Path
    is_small: bool

    def fill(self) -> None:
        """Not one byte is left; what is open and grows finds no room."""
        assert self.is_small, "this disk is the machine's own"
        with self._ballast.open("ab", buffering=0) as file, suppress(OSError):
            while file.write(bytes(MEBIBYTE)) == MEBIBYTE:
                pass
        with self._ballast.open("ab", buffering=0) as file, suppress(OSError):
            while file.write(bytes(1024)):
                pass

    def empty(self) -> None:
        self._ballast.unlink(missing_ok=True)

    @property
    def _ballast(self) -> Path:
        return self.folder / "ballast"


@contextmanager
def small_disk(folder: Path, mebibytes: int) -> Iterator[Disk]:
    """Mounted on this folder, which is made; an ordinary folder where that is not allowed."""
    folder.mkdir(parents=True)
    sudo = _mount(folder, mebibytes)
    try:
        yield Disk(folder, is_small=sudo is not None)
    finally:
        if sudo is not None:
            # lazily: a process that is just being ended may still have a file open
            subprocess.run([*sudo, "umount", "--lazy", str(folder)], check=True, timeout=60)


def _mount(folder: Path, mebibytes: int) -> list[str] | None:
    """What has to stand before `umount`; None: it could not be mounted."""
    if shutil.which("mount") is None:
        return None
    options = f"size={mebibytes}m,mode=0700,uid={os.getuid()},gid={os.getgid()}"
    for sudo in ([], ["sudo", "-n"]):
        command = [*sudo, "mount", "-t", "tmpfs", "-o", options, "crawler-chaos", str(folder)]
        with suppress(OSError, subprocess.TimeoutExpired):
            if subprocess.run(command, capture_output=True, timeout=60).returncode == 0:
                return sudo
    return None
