"""Deployments per second by the scheduler service on a real control plane, and their limit.

With the adapter alone the API server sets the limit; through the service its process does, too. Controllers at work
compete for the same cores.
"""

import asyncio
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import psutil

from bench.control_plane import Spent, on_control_plane, standing_still
from bench.measuring import PATIENCE, cpu_seconds
from bench.table import Scale, Table
from crawler_lifecycle.clusters.adapters.scheduler_client import SchedulerClient
from crawler_lifecycle.clusters.kubernetes.act.job_spec import PodSettings
from crawler_lifecycle.clusters.kubernetes.cluster import KubernetesCluster, LogStorage
from crawler_lifecycle.clusters.kubernetes.http.connection import ApiAccess
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.model.deployment import Crawler, Deployment, DeploymentRequest
from tests.kubernetes import fates
from tests.kubernetes.bed import Bed
from tests.kubernetes.client import until

COLUMNS = (
    "by",
    "controllers",
    "in flight",
    "jobs/s",
    "service CPU ms a job",
    "client CPU ms a job",
    "server CPU ms a job",
)
CONTROLLERS = ("kube-controller-manager", "kube-scheduler", "kwok")
ENTRY = Crawler(name="books", command=["crawl"], image=fates.RUNS)
SETTLED_SECONDS = 600.0
Deploy = Callable[[DeploymentRequest], Deployment]


def measure(scale: Scale) -> Table:
    return on_control_plane(COLUMNS, _rows, scale)


def _rows(bed: Bed, scale: Scale) -> list[tuple[object, ...]]:
    namespace = bed.namespace()
    kubeconfig = bed.kubeconfig("actor", namespace)
    rows: list[tuple[object, ...]] = []
    with (
        TemporaryDirectory(prefix="bench-deployments-") as folder,
        _service(Path(folder), namespace, kubeconfig) as (
            process,
            client,
        ),
    ):
        cluster = KubernetesCluster(ApiAccess(namespace, kubeconfig), None, PodSettings(), LogStorage(Path(folder)))
        ways = {"adapter": cluster.deploy, "service": client.deploy}
        for in_flight, by in product(scale.in_flight, ways):
            row = _row(bed, process, ways[by], in_flight, scale.deployed)
            _until_settled(bed, namespace)
            rows.append((by, "at work", *row))
        with standing_still(bed, *CONTROLLERS):
            for in_flight, by in product(scale.in_flight, ways):
                row = _row(bed, process, ways[by], in_flight, scale.deployed)
                rows.append((by, "idle", *row))
    return rows


def _until_settled(bed: Bed, namespace: str) -> None:
    """Wait until all pods run, so that a measurement does not burden the next."""

    def settled() -> bool:
        jobs = bed.admin.items(f"/apis/batch/v1/namespaces/{namespace}/jobs")
        return all(job["status"].get("ready") for job in jobs)

    until(settled, "the pods of all jobs to run", SETTLED_SECONDS)


def _row(bed: Bed, service: psutil.Process, deploy: Deploy, in_flight: int, jobs: int) -> tuple[object, ...]:
    requests = list(_requests(jobs))
    with ThreadPoolExecutor(in_flight) as pool:
        list(pool.map(deploy, _requests(in_flight)))  # open the connections before the measurement
        spent, before, ours = Spent(bed), cpu_seconds(service), time.process_time()
        began = time.perf_counter()
        deployments = list(pool.map(deploy, requests))
        seconds = time.perf_counter() - began
    assert all(each.created for each in deployments)
    by_program = spent.by_program()
    server = by_program["kube-apiserver"] + by_program["etcd"]
    mine, theirs = time.process_time() - ours, cpu_seconds(service) - before
    return in_flight, jobs / seconds, *(1000 * cpu / jobs for cpu in (theirs, mine, server))


def _requests(jobs: int) -> Iterator[DeploymentRequest]:
    run_uid, installation = str(uuid4()), str(uuid4())
    for task in range(jobs):
        yield DeploymentRequest(
            installation=installation, run_id=1, run_uid=run_uid, task=task, tasks=jobs, attempt=1, crawler=ENTRY
        )


@contextmanager
def _service(folder: Path, namespace: str, kubeconfig: Path) -> Iterator[tuple[psutil.Process, SchedulerClient]]:
    (folder / "catalogue.toml").write_text(f'[crawlers.books]\ncommand = ["crawl"]\nimage = "{fates.RUNS}"\n')
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    token = secrets.token_hex()
    environment = os.environ | {
        "CRAWLER_STATE": str(folder),
        "CRAWLER_CLUSTER__KIND": "kubernetes",
        "CRAWLER_KUBERNETES__NAMESPACE": namespace,
        "CRAWLER_KUBERNETES__KUBECONFIG": str(kubeconfig),
        "CRAWLER_SCHEDULER__URL": url,
        "CRAWLER_SCHEDULER__TOKEN": token,
        "CRAWLER_SCHEDULER__CATALOGUE": str(folder / "catalogue.toml"),
    }
    command = [sys.executable, "-m", "workers.scheduler"]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, env=environment, stderr=log) as process:
        client = SchedulerClient(url, token, timeout=PATIENCE)
        try:
            asyncio.run(_until_ready(client))
            yield psutil.Process(process.pid), client
        finally:
            client.close()
            process.terminate()


async def _until_ready(client: SchedulerClient) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                client.check()
            except TemporaryError:
                await asyncio.sleep(0.1)
            else:
                return
