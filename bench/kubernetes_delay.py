"""Delay between a change in the cluster and its row in the database, with and without the watcher."""

import asyncio
import json
import statistics
import threading
import time
from contextlib import suppress
from typing import Any

import httpx

from bench.control_plane import on_control_plane
from bench.table import Scale, Table
from bench.whole_service import Rows, end, on_service, start_running
from crawler_lifecycle.model.answers import Started
from tests.kubernetes.bed import condition
from tests.kubernetes.service import Service

COLUMNS = ("watcher", "tasks of the run", "changes", "median s", "longest s")
PAUSE = 0.01


def measure(scale: Scale) -> Table:
    return on_control_plane(COLUMNS, on_service(_delays), scale)


async def _delays(service: Service, scale: Scale) -> Rows:
    rows: Rows = []
    with _Ends(service) as ends:
        for tasks in scale.watched:
            run = await start_running(service, tasks)
            delays = [await _delay(service, run, ends, task) for task in range(1, min(tasks, scale.changes))]
            rows.append(("runs", tasks, len(delays), statistics.median(delays), max(delays)))
            await end(service, run)
        service.kill("watcher")
        run = await start_running(service, scale.watched[0])
        watched = range(1, scale.watched[0])
        delays = await asyncio.gather(*(_delay(service, run, ends, task) for task in watched))
        rows.append(("is dead", scale.watched[0], len(delays), statistics.median(delays), max(delays)))
        await end(service, run)
    return rows


async def _delay(service: Service, run: Started, ends: "_Ends", task: int) -> float:
    """Delete a task's pod, so that its job fails. Return the seconds from the API server's report to the row in the
    database.
    """
    pod = next(pod for pod in service.objects("pods", run) if _task(pod) == task)
    service.bed.admin.delete(f"/api/v1/namespaces/{service.namespace}/pods/{pod['metadata']['name']}")
    while not service.control.runs.show(run.run_id).tasks[task].status.is_over:
        await asyncio.sleep(PAUSE)
    return time.monotonic() - ends.seen[run.run_uid, task]


def _task(item: dict[str, Any]) -> int:
    return int(item["metadata"]["labels"]["crawler-lifecycle/task"])


class _Ends:
    """Return when the jobs ended, according to a watch that only the benchmark reads."""

    def __init__(self, service: Service) -> None:
        self.seen: dict[tuple[str, int], float] = {}
        self._url = f"/apis/batch/v1/namespaces/{service.namespace}/jobs"
        self._http = service.bed.admin.http
        self._over = False
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "_Ends":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._thread.join()

    def _watch(self) -> None:
        while not self._over:
            query: dict[str, str | int] = {"watch": "1", "timeoutSeconds": 5}
            with suppress(httpx.TransportError), self._http.stream("GET", self._url, params=query) as answer:
                for line in answer.iter_lines():
                    self._note(json.loads(line)["object"])

    def _note(self, job: dict[str, Any]) -> None:
        if "True" in (condition(job, "Failed"), condition(job, "Complete")):
            run_uid = job["metadata"]["labels"]["crawler-lifecycle/run-uid"]
            self.seen.setdefault((run_uid, _task(job)), time.monotonic())
