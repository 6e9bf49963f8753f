"""Costs of reading a run's jobs from a real API server, by our look and by other clients' methods.

The jobs are new and no controller has seen them, so only the reading is measured. In the last part every job has a
waiting pod, so that our look reads the pods as well.
"""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from uuid import uuid4

from bench.control_plane import Spent, on_control_plane, standing_still
from bench.kubernetes_ways import OURS, WAYS
from bench.table import Scale, Table
from crawler_lifecycle.clusters.kubernetes.act.job_spec import PodSettings, job_of
from crawler_lifecycle.model.deployment import Crawler, DeploymentRequest
from tests.kubernetes.bed import Bed
from tests.kubernetes.client import until

CONTROLLERS = "kube-controller-manager"
COLUMNS = ("jobs", "by", "calls", "MB read", "MB on the wire", "s", "CPU s", "server CPU s", "peak MB")
MAKERS = 16
REPEATS = 6
PATIENCE = 1800.0
ENTRY = Crawler(name="books", command=["crawl"], image="registry.example.com/crawlers/books@sha256:" + "0" * 64)

Row = tuple[object, ...]


def measure(scale: Scale) -> Table:
    return on_control_plane(COLUMNS, _rows, scale)


def _rows(bed: Bed, scale: Scale) -> list[Row]:
    namespace = bed.namespace()
    asker = Asker(bed, namespace, bed.kubeconfig("observer", namespace))
    with standing_still(bed, "kube-scheduler", "kwok"):
        with standing_still(bed, CONTROLLERS):
            runs = {jobs: _made(bed, namespace, jobs) for jobs in scale.jobs}
            rows = [asker.ask(run, jobs, way) for jobs, run in runs.items() for way in WAYS]
        _let_each_have_its_pod(bed, namespace, sum(runs))
        with standing_still(bed, CONTROLLERS):
            return [*rows, *(asker.ask(run, jobs, OURS, ", each waits") for jobs, run in runs.items())]


@dataclass(frozen=True)
class Asker:
    """Measure for one run, with all further runs in the same namespace."""

    bed: Bed
    namespace: str
    kubeconfig: Path

    def ask(self, run: str, jobs: int, way: str, words: str = "") -> Row:
        """Measure our look several times, and the slow methods once."""
        turns = [self._asked(way, run, jobs) for _ in range(REPEATS if way == OURS else 1)]
        return jobs, way + words, *_medians(turns)

    def _asked(self, way: str, run: str, jobs: int) -> tuple[float, ...]:
        spent = Spent(self.bed)
        words = (way, run, str(jobs), self.namespace, str(self.kubeconfig))
        command = [sys.executable, "-m", "bench.kubernetes_ways", *words]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=PATIENCE).stdout
        figures = json.loads(output)
        server = spent.by_program()["kube-apiserver"] + spent.by_program()["etcd"]
        megabytes = (figures["bytes"] / 1e6, figures["sent"] / 1e6)
        return figures["calls"], *megabytes, figures["seconds"], figures["cpu"], server, figures["peak"]


def _medians(rows: list[tuple[float, ...]]) -> list[float]:
    return [median(column) for column in zip(*rows, strict=True)]


def _let_each_have_its_pod(bed: Bed, namespace: str, jobs: int) -> None:
    def all_there() -> bool:
        page = bed.admin.get(f"/api/v1/namespaces/{namespace}/pods", limit=1)
        more: int = page["metadata"].get("remainingItemCount", 0)
        return len(page["items"]) + more == jobs

    until(all_there, f"{jobs} pods", PATIENCE)


def _made(bed: Bed, namespace: str, jobs: int) -> str:
    run_uid, installation = str(uuid4()), str(uuid4())

    def make(task: int) -> None:
        request = DeploymentRequest(
            installation=installation, run_id=1, run_uid=run_uid, task=task, tasks=jobs, attempt=1, crawler=ENTRY
        )
        bed.admin.post(f"/apis/batch/v1/namespaces/{namespace}/jobs", job_of(request, PodSettings()))

    with ThreadPoolExecutor(MAKERS) as pool:
        list(pool.map(make, range(jobs)))
    return run_uid
