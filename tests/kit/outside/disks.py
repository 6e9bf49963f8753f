"""Small disks that can be filled."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, mebibytes: int) -> Iterator[Path]:
    """Mount a disk of this size at the folder. Skip the test where the user may not mount."""
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={mebibytes}m"]
    mounted = subprocess.run(["mount", *options, "small", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"this user may not mount: {mounted.stderr.decode()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)  # a process that ends may still hold a file
