"""Methods of reading the state of a run's jobs: our look, and other clients' methods.

`python -m bench.kubernetes_ways WAY RUN_UID JOBS NAMESPACE KUBECONFIG` reads once, in a new process with its own
memory, and prints the costs as JSON.
"""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import urllib3
from kubernetes.client import ApiClient, BatchV1Api
from kubernetes.config import new_client_from_config

from crawler_lifecycle.clusters.kubernetes.http.api import KubernetesApi
from crawler_lifecycle.clusters.kubernetes.http.connection import ApiAccess
from crawler_lifecycle.clusters.kubernetes.observe.looking import Observer
from crawler_lifecycle.model.naming import job_name

SAMPLE_SECONDS = 0.005
PATIENCE = 60.0


class Run:
    """Parameters for a read, and counts about its answers."""

    def __init__(self, run_uid: str, jobs: int, namespace: str, kubeconfig: Path) -> None:
        self.run_uid, self.jobs, self.namespace, self.kubeconfig = run_uid, jobs, namespace, kubeconfig
        self.calls = self.bytes = self.sent = 0
        self._lock = threading.Lock()

    @property
    def names(self) -> list[str]:
        return [job_name(self.run_uid, task, 1) for task in range(self.jobs)]

    def count(self, size: int, sent: int) -> None:
        """Count an answer. A packed answer is smaller on the wire than in memory."""
        with self._lock:
            self.calls += 1
            self.bytes += size
            self.sent += sent

    def typed(self) -> BatchV1Api:
        client: ApiClient = new_client_from_config(str(self.kubeconfig))
        answered: Any = client.rest_client.request

        def request(*words: Any, **more: Any) -> Any:
            answer = answered(*words, **more)
            self.count(len(answer.read()), answer.response.tell())
            return answer

        client.rest_client.request = request  # type: ignore[method-assign]
        return BatchV1Api(client)


class Counted(KubernetesApi):
    """Our API client, which counts its answers."""

    def __init__(self, run: Run) -> None:
        super().__init__(ApiAccess(run.namespace, run.kubeconfig))
        self._run, self._sent = run, 0

    @contextmanager
    def _answer(self, *words: Any, **more: Any) -> Iterator[urllib3.HTTPResponse]:
        with super()._answer(*words, **more) as answer:
            yield answer
            self._sent = answer.tell()

    def _whole(self, *words: Any, **more: Any) -> bytes:
        body = super()._whole(*words, **more)
        self._run.count(len(body), self._sent)
        return body


def ours(run: Run) -> int:
    look = Observer(Counted(run), None).look(run.run_uid, [(task, 1) for task in range(run.jobs)])
    assert look.complete, look.problem
    return len(look.jobs)


def typed_list(run: Run) -> int:
    selector = f"crawler-lifecycle/run-uid={run.run_uid}"
    page = run.typed().list_namespaced_job(run.namespace, label_selector=selector, _request_timeout=PATIENCE)
    return sum(bool(job.status) for job in page.items)


def one_by_one(run: Run) -> int:
    api = run.typed()
    return sum(bool(_status(api, run, name)) for name in run.names)


def _status(api: BatchV1Api, run: Run, name: str) -> Any:
    return api.read_namespaced_job(name, run.namespace, _request_timeout=PATIENCE).status


OURS = "ours"
WAYS: dict[str, Callable[[Run], int]] = {OURS: ours, "one typed list": typed_list, "a GET per job": one_by_one}


@contextmanager
def peak_memory() -> Iterator[list[float]]:
    """Return the peak memory in MB above the memory at the start, sampled all the time."""
    process, over, peak = psutil.Process(), threading.Event(), [0.0]
    before = process.memory_info().rss

    def watch() -> None:
        while not over.wait(SAMPLE_SECONDS):
            peak[0] = max(peak[0], (process.memory_info().rss - before) / 1e6)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()


def main(way: str, run_uid: str, jobs: str, namespace: str, kubeconfig: str) -> None:
    run = Run(run_uid, int(jobs), namespace, Path(kubeconfig))
    with peak_memory() as peak:
        began, spent = time.perf_counter(), time.process_time()
        seen = WAYS[way](run)
        seconds, cpu = time.perf_counter() - began, time.process_time() - spent
    assert seen == run.jobs, f"{way} saw {seen} of {run.jobs} jobs"
    figures = {
        "calls": run.calls,
        "bytes": run.bytes,
        "sent": run.sent,
        "seconds": seconds,
        "cpu": cpu,
        "peak": peak[0],
    }
    sys.stdout.write(json.dumps(figures))


if __name__ == "__main__":
    main(*sys.argv[1:])
