"""Scheduler services to test against: a small cluster, requests, and the app served for real on loopback."""

import socket
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import uvicorn

from crawler_lifecycle.clusters.adapters.catalogue import Catalogue
from crawler_lifecycle.clusters.ports import NO_UIDS, Cluster, LogChunk, Uids
from crawler_lifecycle.clusters.processes import ServiceTokens, make_app
from crawler_lifecycle.errors import Conflict, LifecycleError
from crawler_lifecycle.model.deployment import Crawler, Deployment, DeploymentRequest
from crawler_lifecycle.model.looks import JobKey, JobLook, JobPhase, Look
from crawler_lifecycle.model.naming import job_name
from crawler_lifecycle.model.supervision import ListedJob
from crawler_lifecycle.model.task_changes import TaskEvidence

TOKEN, READ_TOKEN, METRICS_TOKEN = "a-token-for-tests", "a-reading-token", "a-scraping-token"
TOKENS = ServiceTokens(TOKEN, READ_TOKEN, METRICS_TOKEN)
CATALOGUE = """
[crawlers.bookshop]
command = ["true"]
processes = 4

[crawlers."odd/../name %2F?&#é 100%"]
command = ["true"]

[crawlers.".."]
command = ["true"]

[managers.shops]
class = "m:Shops"
arguments = ["--own", "3"]
"""


class SmallCluster:
    """Remembers what was deployed; raises `trouble` instead, if there is any."""

    records_stay = False

    def __init__(self) -> None:
        self.jobs: dict[str, tuple[DeploymentRequest, Deployment]] = {}
        self.trouble: LifecycleError | RuntimeError | None = None
        self.placing_trouble: Exception | None = None
        self.placed = threading.Event()
        self._lock = threading.Lock()

    def deploy(self, request: DeploymentRequest) -> Deployment:
        self._maybe_fail()
        with self._lock:
            if request.key in self.jobs:
                first, deployment = self.jobs[request.key]
                if first != request:
                    raise Conflict(f"{request.key} was used for another request")
                return deployment.model_copy(update={"created": False})
            name = job_name(request.run_uid, request.task, request.attempt)
            deployment = Deployment(key=request.key, job_name=name, job_uid=str(uuid4()), created=True)
            self.jobs[request.key] = (request, deployment)
            return deployment

    def check(self) -> str:
        self._maybe_fail()
        return "a small cluster"

    def place_waiting(self) -> None:
        self.placed.set()
        if self.placing_trouble:
            raise self.placing_trouble

    def look(
        self,
        run_uid: str,
        watched: Collection[JobKey] = (),
        tasks: Collection[int] | None = None,
        *,
        uids: Uids = NO_UIDS,
    ) -> Look:
        if self.trouble:
            return Look(complete=False, problem=str(self.trouble))
        with self._lock:
            ours = [(request, made) for request, made in self.jobs.values() if request.run_uid == run_uid]
        jobs = [JobLook(of.task, of.attempt, made.job_uid, made.job_name, JobPhase.RUNNING) for of, made in ours]
        return Look(complete=True, jobs={(job.task, job.attempt): job for job in jobs})

    def inventory(self) -> Iterator[Sequence[ListedJob]]:
        yield []

    def evidence(self, run_uid: str, jobs: Sequence[JobKey], *, hurried: bool = False) -> list[TaskEvidence]:
        return []

    def stop(self, run_uid: str, jobs: Sequence[JobKey], **_: object) -> dict[JobKey, str]:
        return {}

    def give_up(self, run_uid: str, jobs: Sequence[JobLook]) -> set[JobKey]:
        return {(job.task, job.attempt) for job in jobs}

    def kill(self, run_uid: str, jobs: Sequence[JobKey], **_: object) -> None: ...

    def unreached(self, run_uid: str, jobs: Sequence[JobKey]) -> dict[JobKey, str]:
        return {}

    def remove(self, run_uid: str, jobs: Sequence[JobKey], *, uids: Uids = NO_UIDS) -> int:
        return 0

    def log(self, run_uid: str, task: int, attempt: int, offset: int) -> LogChunk:
        return LogChunk("", offset, ended=True)

    def changes(self) -> Iterator[set[str]]:
        yield set()

    def _maybe_fail(self) -> None:
        if self.trouble:
            raise self.trouble


def a_request(**changes: Any) -> DeploymentRequest:
    given = {
        "installation": str(uuid4()),
        "run_id": 42,
        "run_uid": str(uuid4()),
        "task": 0,
        "tasks": 4,
        "attempt": 1,
        "crawler": Crawler(name="bookshop", command=["echo", "as it was when the run began"]),
        "arguments": {"site": "http://127.0.0.1/ $(x) %s"},
    }
    return DeploymentRequest.model_validate(given | changes)


def a_catalogue(folder: Path, text: str = CATALOGUE) -> Catalogue:
    path = folder / "catalogue.toml"
    path.write_text(text)
    return Catalogue.load(path)


@contextmanager
def served(
    cluster: Cluster, catalogue: Catalogue, *, installation: str | None = None, folders: Sequence[Path] = ()
) -> Iterator[str]:
    """The URL of the service, running in a thread until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        app = make_app(cluster, catalogue, TOKENS, installation=installation, folders=folders)
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=5))
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive()
