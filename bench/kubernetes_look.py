"""Costs of a look at the Kubernetes API's answers: CPU and memory, without the network.

Two ways read the same pages, as large as a real server's: our look, and the typed models of the `kubernetes` package,
as the package's own lists do. Memory is Python's allocation, including the page in hand.
"""

import math
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from kubernetes.client import ApiClient

from bench.table import Scale, Table
from crawler_lifecycle.clusters.kubernetes.http.api import PAGE, KubernetesApi, ServerClock
from crawler_lifecycle.clusters.kubernetes.naming import TASKS_IN_A_SELECTOR
from crawler_lifecycle.clusters.kubernetes.observe.looking import Observer
from crawler_lifecycle.model.naming import job_name

REPEATS = 3
WHEN = "2026-11-20T08:00:00Z"
IMAGE = "registry.example.com/crawlers/books@sha256:" + "0" * 64
OURS, RUN = "6b1f0f5e-0000-4000-8000-000000000001", "6b1f0f5e-0000-4000-8000-0000000000aa"


class Answers(KubernetesApi):
    """Stand-in for the API, with the server's answers ready as bytes."""

    def __init__(self, jobs: list[bytes], pods: list[bytes]) -> None:
        self.namespace, self.clock = "crawls", ServerClock()
        self.ready: Mapping[str, list[bytes]] = {self.jobs_path(): jobs, self.core_path("pods"): pods}
        self.lists = self.size = 0

    def pages(
        self,
        path: str,
        query: Mapping[str, str | int] | None = None,  # noqa: ARG002 - there are no pods but those that are asked for
        *,
        accept: str = "application/json",  # noqa: ARG002
        until: float = math.inf,  # noqa: ARG002
    ) -> Iterator[bytes]:
        for page in self.ready[path]:
            self.lists += 1
            self.size += len(page)
            yield bytes(memoryview(page))  # a copy, like a page just received


def measure(scale: Scale) -> Table:
    columns = ("jobs", "of which wait", "by", "lists", "MB read", "CPU ms", "peak MB")
    return Table(columns, [row for jobs in scale.jobs for row in _rows(jobs)])


def _rows(jobs: int) -> Iterator[tuple[object, ...]]:
    waiting = min(jobs // 2, TASKS_IN_A_SELECTOR)  # as many as fit a single list of pods
    answers = _answers(jobs, waiting)
    yield jobs, waiting, "ours", *_measured(answers, _ours(answers, jobs), jobs)
    yield jobs, waiting, "typed models", *_measured(answers, _typed(answers), jobs)
    answers = _answers(jobs, jobs)
    yield jobs, jobs, "ours", *_measured(answers, _ours(answers, jobs), jobs)


def _answers(jobs: int, waiting: int) -> Answers:
    return Answers(list(_pages("Job", jobs, waiting)), list(_pages("Pod", waiting, waiting)))


def _measured(answers: Answers, work: Callable[[], int], jobs: int) -> tuple[int, float, float, float]:
    taken = []
    for _ in range(REPEATS):
        answers.lists, answers.size = 0, 0
        began = time.process_time()
        seen = work()
        taken.append(1000 * (time.process_time() - began))
        assert seen == jobs, seen
    lists, size = answers.lists, answers.size
    tracemalloc.start()  # in an extra pass, since tracing slows everything down
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return lists, size / 1e6, statistics.median(taken), peak / 1e6


def _ours(answers: Answers, tasks: int) -> Callable[[], int]:
    looking, watched = Observer(answers, OURS), [(task, 1) for task in range(tasks)]

    def look() -> int:
        seen = looking.look(RUN, watched)
        assert seen.complete, seen.problem
        return len(seen.jobs)

    return look


def _typed(answers: Answers) -> Callable[[], int]:
    client = ApiClient()

    def decode() -> int:
        jobs, pods = (
            [client.deserialize(body.decode(), kind, "application/json") for body in answers.pages(path)]
            for path, kind in ((answers.jobs_path(), "V1JobList"), (answers.core_path("pods"), "V1PodList"))
        )
        assert pods
        return sum(len(page.items) for page in jobs)

    return decode


def _pages(kind: str, count: int, waiting: int) -> Iterator[bytes]:
    make = _job if kind == "Job" else _pod
    for start in range(0, max(count, 1), PAGE):
        items = [make(task, task < waiting) for task in range(start, min(start + PAGE, count))]
        more = {"resourceVersion": "1", "continue": "more" if start + PAGE < count else ""}
        yield msgspec.json.encode({"kind": f"{kind}List", "apiVersion": "v1", "metadata": more, "items": items})


NOT_OURS_TO_READ = {"apiVersion": "batch/v1", "fieldsType": "FieldsV1", "manager": "kube-controller-manager"}


def _job(task: int, waits: bool) -> dict[str, Any]:
    """Return a Job of about 2.7 kB, as a server writes Jobs."""
    name, labels = job_name(RUN, task, 1), _labels(task)
    template = {"metadata": {"labels": labels}, "spec": _pod_spec()}
    return {
        "metadata": _metadata(name, f"job-{task}", labels),
        "spec": {"parallelism": 1, "completions": 1, "backoffLimit": 0, "suspend": False, "template": template},
        "status": {"startTime": WHEN, "active": 1, "ready": 0 if waits else 1, "terminating": 0},
    }


def _pod(task: int, waits: bool) -> dict[str, Any]:
    name = job_name(RUN, task, 1)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"job-{task}", "controller": True}
    metadata = _metadata(f"{name}-x2x4z", f"pod-{task}", _labels(task))
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": WHEN} for kind in kinds]
    container = {"name": "crawl", "image": IMAGE, "imageID": IMAGE, "restartCount": 0, "ready": False}
    state = {"waiting": {"reason": "PodInitializing" if waits else "Banana"}}
    return {
        "metadata": {**metadata, "ownerReferences": [owner]},
        "spec": {**_pod_spec(), "nodeName": "node-1"},
        "status": {"phase": "Pending", "conditions": conditions, "containerStatuses": [{**container, "state": state}]},
    }


def _labels(task: int) -> dict[str, str]:
    ours = {"installation": OURS, "run-uid": RUN, "task": str(task), "attempt": "1", "spec-hash": "0" * 40}
    return {f"crawler-lifecycle/{name}": value for name, value in ours.items()}


def _metadata(name: str, uid: str, labels: dict[str, str]) -> dict[str, Any]:
    written: dict[str, Any] = {f"f:field-{number}": {".": {}, "f:value": {}} for number in range(20)}
    managed = [{**NOT_OURS_TO_READ, "time": WHEN, "fieldsV1": {"f:status": written}}]
    known = {"name": name, "namespace": "crawls", "uid": uid, "resourceVersion": "12345", "generation": 1}
    return {**known, "labels": labels, "creationTimestamp": WHEN, "managedFields": managed}


def _pod_spec() -> dict[str, Any]:
    env = [{"name": f"CRAWL_VARIABLE_{number}", "value": "a value of some length"} for number in range(8)]
    limits = {"cpu": "500m", "memory": "512Mi"}
    container = {
        "name": "crawl",
        "image": IMAGE,
        "args": ["--start", "https://books.example.com"],
        "env": env,
        "resources": {"requests": limits, "limits": limits},
        "volumeMounts": [{"name": "files", "mountPath": "/crawl/files"}],
    }
    return {"restartPolicy": "Never", "containers": [container], "volumes": [{"name": "files", "emptyDir": {}}]}
