"""Duration of a look at a run of many jobs in the local cluster.

The adapter's own writers make the job folders; no process runs. All running jobs share a lock file, which the benchmark
holds like their runner.
"""

import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock
from uuid import uuid4

from bench.measuring import seconds_of
from bench.table import Scale, Table
from crawler_lifecycle.clusters.local.cluster import LocalCluster
from crawler_lifecycle.clusters.local.creation import new_spec
from crawler_lifecycle.clusters.local.records import EndRecord, JobFolder, Layout, Spec, StartRecord
from crawler_lifecycle.model.deployment import Crawler, DeploymentRequest
from crawler_lifecycle.model.looks import JobPhase

REPEATS = 3
OURS = str(uuid4())


def measure(scale: Scale) -> Table:
    with TemporaryDirectory(prefix="bench-jobs-") as folder:
        return Table(("jobs", "of which ended", "ms"), list(_rows(Path(folder), scale)))


def _rows(folder: Path, scale: Scale) -> Iterator[tuple[object, ...]]:
    layout = Layout(folder / "cluster")
    layout.make()
    cluster = LocalCluster(layout.root, folder / "files", OURS, capacity=1)
    for tasks in scale.tasks:
        run_uid = str(uuid4())
        jobs = _make_jobs(layout, folder / "files", run_uid, tasks)
        held = jobs[0][0].lock()
        assert held is not None
        yield tasks, "none", _look_ms(cluster, run_uid, tasks, JobPhase.RUNNING)
        os.close(held)
        _end(jobs)
        yield tasks, "all", _look_ms(cluster, run_uid, tasks, JobPhase.SUCCEEDED)


def _look_ms(cluster: LocalCluster, run_uid: str, tasks: int, phase: JobPhase) -> float:
    look = cluster.look(run_uid)
    assert look.complete, look.problem
    assert [job.phase for job in look.jobs.values()] == [phase] * tasks
    return 1000 * statistics.median(seconds_of(lambda: cluster.look(run_uid)) for _ in range(REPEATS))


def _make_jobs(layout: Layout, files: Path, run_uid: str, tasks: int) -> list[tuple[JobFolder, Spec]]:
    crawler = Crawler(name="books", command=["true"])
    jobs = []
    with _unsynced():
        for task in range(tasks):
            request = DeploymentRequest(
                installation=OURS, run_id=1, run_uid=run_uid, task=task, tasks=tasks, attempt=1, crawler=crawler
            )
            spec = new_spec(request, files, layout)
            folder = JobFolder(layout.job(spec.name))
            folder.path.mkdir(parents=True)
            folder.write(spec)
            folder.write(StartRecord(spec.uid, OURS, time.time(), os.getpid(), time.time(), os.getpid(), time.time()))
            jobs.append((folder, spec))
            _share_lock(jobs[0][0], folder)
    return jobs


def _share_lock(first: JobFolder, folder: JobFolder) -> None:
    if first is folder:
        (folder.path / "lock").touch()
    else:
        (folder.path / "lock").hardlink_to(first.path / "lock")


def _end(jobs: list[tuple[JobFolder, Spec]]) -> None:
    now = time.time()
    with _unsynced():
        for folder, spec in jobs:
            folder.write(EndRecord(spec.uid, OURS, now, 0, None, None, now, stop_asked=False))


def _unsynced() -> "mock._patch[mock.MagicMock | mock.AsyncMock]":
    """Write without fsync: thirty thousand files that may be lost in a power cut."""
    return mock.patch("os.fsync")
