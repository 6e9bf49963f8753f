"""Costs of the archive of a big run, in a folder and streamed into a bucket, beside compression alone.

A new process makes every archive. `rclone serve s3` serves the bucket from the same disk.
"""

import json
import os
import random
import resource
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock
from uuid import uuid4

from isal import isal_zlib

from bench.table import Scale, Table
from crawler_lifecycle.delivery.adapters.zip_writer import LEVEL, RAW
from tests.kit.outside.stores import ENDED_AT, KEY, SECRET, FolderStore, S3Store, Store, rclone_on

BLOCK = 1_000_000
SMALL = 100
HOLE_BLOCKS = 20
TEXT_BLOCKS = 20  # blocks are longer than the window in which compression looks for repetitions
MIB = 1024 * 1024
COMPRESSED_MB = 200  # for a library alone
# the libraries alone, in memory
COMPRESSORS: dict[str, Callable[[], Any]] = {
    "`zlib`, level 6": lambda: zlib.compressobj(6, zlib.DEFLATED, RAW),
    f"ISA-L, level {LEVEL}": lambda: isal_zlib.compressobj(LEVEL, isal_zlib.DEFLATED, RAW),
}


@dataclass(frozen=True)
class Cost:
    files: int
    seconds: float
    before_mib: float
    peak_mib: float


def measure(scale: Scale) -> Table:
    columns = ("what", "where", "files", "MB", "s", "MB/s", "files/s", "MiB before", "MiB at most")
    blocks = {"noise": [os.urandom(BLOCK)], "text": [_text() for _ in range(TEXT_BLOCKS)]}
    with TemporaryDirectory(prefix="bench-archives-") as folder, rclone_on(Path(folder) / "server") as url:
        stores = _stores(Path(folder), url)
        compressed = _compressed(blocks, min(COMPRESSED_MB, scale.archive_mb))
        return Table(columns, [*compressed, *_rows(Path(folder) / "files", stores, blocks, scale)])


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


def _compressed(blocks: dict[str, list[bytes]], megabytes: int) -> Iterator[tuple[object, ...]]:
    for what, content in blocks.items():
        for library, compressor in COMPRESSORS.items():
            began = time.perf_counter()
            _compress(compressor(), content, megabytes)
            seconds = time.perf_counter() - began
            yield f"{what} in memory", library, 1, float(megabytes), seconds, megabytes / seconds, 1 / seconds, "", ""


def _compress(compressor: Any, blocks: list[bytes], megabytes: int) -> None:
    for number in range(megabytes):
        compressor.compress(blocks[number % len(blocks)])
    compressor.flush()


def _text() -> bytes:
    """Items as a crawler of a bookshop writes them."""
    words = [f"{random.getrandbits(24):x}" for _ in range(3000)]
    lines, size = list[str](), 0
    while size < BLOCK:
        title = " ".join(random.choices(words, k=6))  # noqa: S311 (no secret)
        item = {"url": f"https://books.example/catalogue/{title}", "title": title, "price": random.random()}  # noqa: S311
        lines.append(json.dumps(item) + "\n")
        size += len(lines[-1])
    return "".join(lines).encode()[:BLOCK]


def _rows(
    files: Path, stores: dict[str, Store], blocks: dict[str, list[bytes]], scale: Scale
) -> Iterator[tuple[object, ...]]:
    runs = {
        "one big file of noise": _one_big(files, blocks["noise"], scale),
        "one big file of text": _one_big(files, blocks["text"], scale),
        "many small files": _many_small(files, scale),
    }
    for what, run in runs.items():
        megabytes = sum(path.stat().st_size for path in (files / run).rglob("*") if path.is_file()) / 1e6
        for where, store in stores.items():
            cost = _apart(store, files, run)
            speed, rate = megabytes / cost.seconds, cost.files / cost.seconds
            yield what, where, cost.files, megabytes, cost.seconds, speed, rate, cost.before_mib, cost.peak_mib


def _one_big(files: Path, blocks: list[bytes], scale: Scale) -> str:
    """Write the blocks in their order. A block is too long for compression to notice its repetition."""
    run = str(uuid4())
    (files / run).mkdir(parents=True)
    with (files / run / "items").open("wb") as file:
        for number in range(scale.archive_mb):
            file.write(blocks[number % len(blocks)])
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
        archive = archiver.archive(run, 1, ENDED_AT, _nothing)
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
