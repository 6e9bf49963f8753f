"""What does it cost to learn from a real API server where the jobs of a run stand, by ours and by the ways of others?

The jobs were just made and no controller has seen them: what is measured is the asking, not the cluster.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

from bench.control_plane import Spent, on_control_plane, standing_still
from bench.kubernetes_ways import WAYS
from bench.table import Scale, Table
from crawler_lifecycle.adapters.kubernetes.job_spec import Pods, job_of
from crawler_lifecycle.contract.deployment import Crawler, DeploymentRequest
from tests.kubernetes.bed import Bed

COLUMNS = ("jobs", "by", "calls", "MB read", "s", "CPU s", "server CPU s", "peak MB")
MAKERS = 16
PATIENCE = 1800.0
ENTRY = Crawler(name="books", command=["crawl"], image="registry.example.com/crawlers/books@sha256:" + "0" * 64)


def measure(scale: Scale) -> Table:
    return on_control_plane(COLUMNS, _rows, scale)


def _rows(bed: Bed, scale: Scale) -> list[tuple[object, ...]]:
    namespace = bed.namespace()
    kubeconfig = bed.kubeconfig("observer", namespace)
    with standing_still(bed, "kube-controller-manager", "kube-scheduler", "kwok"):
        runs = {jobs: _made(bed, namespace, jobs) for jobs in scale.jobs}
        return [row for jobs, run in runs.items() for row in _by_every_way(bed, run, jobs, namespace, kubeconfig)]


def _by_every_way(bed: Bed, run: str, jobs: int, namespace: str, kubeconfig: Path) -> Iterator[tuple[object, ...]]:
    """All other runs are in the namespace, too."""
    for way in WAYS:
        spent = Spent(bed)
        command = [sys.executable, "-m", "bench.kubernetes_ways", way, run, str(jobs), namespace, str(kubeconfig)]
        told = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=PATIENCE).stdout
        of = json.loads(told)
        server = spent.by_program()["kube-apiserver"] + spent.by_program()["etcd"]
        yield jobs, way, of["calls"], of["bytes"] / 1e6, of["seconds"], of["cpu"], server, of["peak"]


def _made(bed: Bed, namespace: str, jobs: int) -> str:
    run_uid, installation = str(uuid4()), str(uuid4())

    def make(task: int) -> None:
        request = DeploymentRequest(
            installation=installation, run_id=1, run_uid=run_uid, task=task, tasks=jobs, attempt=1, crawler=ENTRY
        )
        bed.admin.post(f"/apis/batch/v1/namespaces/{namespace}/jobs", job_of(request, Pods()))

    with ThreadPoolExecutor(MAKERS) as pool:
        list(pool.map(make, range(jobs)))
    return run_uid
