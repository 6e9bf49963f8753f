"""Costs of the archive of a big run, in a folder and streamed into a bucket.

A new process makes every archive. `rclone serve s3` serves the bucket from the same disk.
"""

import os
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock
from uuid import uuid4

from bench.table import Scale, Table
from tests.stores import KEY, SECRET, FolderStore, S3Store, Store, rclone_on

BLOCK = 1_000_000
SMALL = 100
HOLE_BLOCKS = 20
MIB = 1024 * 1024


@dataclass(frozen=True)
class Cost:
    files: int
    seconds: float
    before_mib: float
    peak_mib: float


def measure(scale: Scale) -> Table:
    columns = ("what", "where", "files", "MB", "s", "MB/s", "MiB before", "MiB at most")
    with TemporaryDirectory(prefix="bench-archives-") as folder, rclone_on(Path(folder) / "server") as url:
        return Table(columns, list(_rows(Path(folder) / "files", _stores(Path(folder), url), scale)))


def measure_huge(scale: Scale) -> Table:
    """Write two files. The first has holes, which are read as zeros and need no disk; every twentieth megabyte is
    noise. The second is all noise, so that its archive is as big as the file.
    """
    columns = ("where", "GB", "GB of archive", "s", "MB/s", "MiB before", "MiB at most")
    with TemporaryDirectory(prefix="bench-huge-") as folder, rclone_on(Path(folder) / "server") as url:
        files, stores = Path(folder) / "files", _stores(Path(folder), url)
        rows = []
        for where, every in (("folder", HOLE_BLOCKS), ("S3", HOLE_BLOCKS), ("S3", 1)):
            run = str(uuid4())
            noise = _noise(files / run, scale.huge_gb * 1000, every)
            cost = _apart(stores[where], files, run)
            speed = scale.huge_gb * 1000 / cost.seconds
            rows.append((where, scale.huge_gb, noise / 1000, cost.seconds, speed, cost.before_mib, cost.peak_mib))
        return Table(columns, rows)


def _stores(folder: Path, url: str) -> dict[str, Store]:
    return {"folder": FolderStore(folder / "exports"), "S3": S3Store(url, "bench/")}


def _noise(folder: Path, megabytes: int, every: int) -> int:
    """Write noise into every n-th megabyte of a file. Return the number of noisy megabytes."""
    folder.mkdir(parents=True)
    noisy = range(0, megabytes, every)
    with (folder / "items").open("wb") as file:
        file.truncate(megabytes * BLOCK)
        for number in noisy:
            file.seek(number * BLOCK)
            file.write(os.urandom(BLOCK))
    return len(noisy)


def _rows(files: Path, stores: dict[str, Store], scale: Scale) -> Iterator[tuple[object, ...]]:
    for what, run in (("one big file", _one_big(files, scale)), ("many small files", _many_small(files, scale))):
        megabytes = sum(path.stat().st_size for path in (files / run).rglob("*") if path.is_file()) / 1e6
        for where, store in stores.items():
            cost = _apart(store, files, run)
            speed = megabytes / cost.seconds
            yield what, where, cost.files, megabytes, cost.seconds, speed, cost.before_mib, cost.peak_mib


def _one_big(files: Path, scale: Scale) -> str:
    """Write data that cannot be compressed, so that every byte is sent."""
    run = str(uuid4())
    (files / run).mkdir(parents=True)
    with (files / run / "items").open("wb") as file:
        for _ in range(scale.archive_mb):
            file.write(os.urandom(BLOCK))
    return run


def _many_small(files: Path, scale: Scale) -> str:
    run = str(uuid4())
    for number in range(scale.small_files):
        folder = files / run / f"{number // 1000}"
        if number % 1000 == 0:
            folder.mkdir(parents=True)
        (folder / f"{number}.json").write_bytes(os.urandom(SMALL))
    return run


def _apart(store: Store, files: Path, run: str) -> Cost:
    """Run in a new process, to measure its memory alone."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(_archive, (store, files, run))


def _archive(store: Store, files: Path, run: str) -> Cost:
    with mock.patch.dict(os.environ, AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET):
        archiver = store.archiver(files)
        before, began = _peak_mib(), time.perf_counter()
        archive = archiver.archive(run, 1, _nothing)
    assert archive is not None
    return Cost(archive.files, time.perf_counter() - began, before, _peak_mib())


def _nothing(files: int, bytes_done: int) -> None:
    pass


def _peak_mib() -> float:
    """Return the largest memory that the process ever had."""
    status = Path("/proc/self/status")
    if status.exists():  # on Linux the figures from `resource` include the parent process
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MIB
