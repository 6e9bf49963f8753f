"""Clusters to hold to the port's contract, and small crawlers to run on them."""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar
from uuid import uuid4

import psutil
import pytest

from crawler_lifecycle.clusters.local import processes
from crawler_lifecycle.clusters.local.cluster import LocalCluster
from crawler_lifecycle.clusters.local.records import JobFolder, Layout, Stop
from crawler_lifecycle.clusters.ports import Cluster
from crawler_lifecycle.model.deployment import Crawler, DeploymentRequest
from crawler_lifecycle.model.looks import JobLook, JobPhase
from tests.kit.clusters.behaviours import Behaviour
from tests.kit.waiting import until

T = TypeVar("T")
PATIENCE = 60.0


class Bench(Protocol):
    """A cluster under test. A further backend needs one of these, and its name in the parameters of `bench`."""

    installation: str
    cluster: Cluster

    def other_client(self, installation: str) -> Cluster:
        """A second client of the same cluster, of that installation."""

    def request(self, behaviour: Behaviour, **changes: object) -> DeploymentRequest:
        """Have a job do this, as task 0 of a new run if nothing else is said."""

    def job(self, request: DeploymentRequest) -> JobLook | None:
        """The job as a complete look shows it."""

    def until_phase(self, request: DeploymentRequest, *phases: JobPhase) -> JobLook: ...

    def until_ended(self, request: DeploymentRequest) -> JobLook: ...

    def until_stopped(self, request: DeploymentRequest) -> JobLook | None:
        """Of a job that was asked or made to end: its end, or None if the cluster keeps nothing of such a job."""


@dataclass
class LocalBench:
    folder: Path
    capacity: int = 8
    installation: str = field(default_factory=lambda: str(uuid4()))

    def __post_init__(self) -> None:
        self.cluster = self.client()

    def client(self, installation: str | None = None, capacity: int | None = None) -> LocalCluster:
        return LocalCluster(
            self.folder / "cluster",
            self.folder / "files",
            installation or self.installation,
            self.capacity if capacity is None else capacity,
        )

    def other_client(self, installation: str) -> LocalCluster:
        return self.client(installation)

    @property
    def layout(self) -> Layout:
        return Layout(self.folder / "cluster")

    def files(self, request: DeploymentRequest) -> Path:
        return self.folder / "files" / request.run_uid

    def folder_of(self, request: DeploymentRequest) -> JobFolder:
        return JobFolder(self.layout.job(f"crawl-{request.run_uid.replace('-', '')}-{request.task}-{request.attempt}"))

    def request(self, behaviour: Behaviour | str, **changes: object) -> DeploymentRequest:
        """A shell script is a behaviour here too."""
        script = behaviour if isinstance(behaviour, str) else behaviour.script
        values: dict[str, object] = {
            "installation": self.installation,
            "run_id": 7,
            "run_uid": str(uuid4()),
            "task": 0,
            "tasks": 4,
            "attempt": 1,
            "crawler": Crawler(name="shell", command=["/bin/sh", "-c", script]),
        }
        return DeploymentRequest.model_validate(values | changes)

    def job(self, request: DeploymentRequest) -> JobLook | None:
        look = self.cluster.look(request.run_uid)
        assert look.complete, look.problem
        return look.jobs.get((request.task, request.attempt))

    def until_phase(self, request: DeploymentRequest, *phases: JobPhase) -> JobLook:
        def reached() -> JobLook | None:
            job = self.job(request)
            return job if job and job.phase in phases else None

        return until(reached, f"{request.key} to be {' or '.join(phases)}")

    def until_ended(self, request: DeploymentRequest) -> JobLook:
        return self.until_phase(request, JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.VANISHED)

    def until_stopped(self, request: DeploymentRequest) -> JobLook:
        return self.until_ended(request)

    def until_file(self, request: DeploymentRequest, name: str) -> str:
        file = self.files(request) / name
        return until(lambda: file.read_text() if file.exists() else None, f"{name} to be written")

    def processes(self, request: DeploymentRequest) -> list[psutil.Process]:
        """Everything of the job that is alive, without its runner."""
        folder = self.folder_of(request)
        spec, started = folder.spec(), folder.started()
        assert spec
        return processes.of_job(processes.survey(), spec.uid, started.first if started else None)

    def living_of(self, request: DeploymentRequest) -> list[psutil.Process]:
        """The same, while the cluster's folder is away."""
        return processes.of_name(processes.survey(), self.folder_of(request).path.name)

    def runner(self, request: DeploymentRequest) -> psutil.Process:
        started = until(self.folder_of(request).started, "the runner to write its record")
        return psutil.Process(started.runner_pid)

    def kill_runner(self, request: DeploymentRequest) -> None:
        """Once it is on record which process is the job: before, any that is left of it may be that."""
        until(lambda: (started := self.folder_of(request).started()) and started.first, "the job's process on record")
        runner = self.runner(request)
        runner.kill()
        psutil.wait_procs([runner], timeout=1)
        until(lambda: not self.folder_of(request).has_runner, "the runner's lock to be free")

    def clear(self) -> None:
        """End every job and every runner of this cluster."""
        for path in [*self.layout.waiting.glob("*"), *self.layout.running.glob("*")]:
            path.unlink(missing_ok=True)
        folders = [JobFolder(path) for path in self.layout.jobs.glob("*/crawl-*")]
        folders = [folder for folder in folders if folder.has_started or folder.has_runner]
        open_ones = [folder for folder in folders if not folder.is_clean]
        for folder in open_ones:
            with suppress(OSError):
                folder.write(Stop(at=time.time(), kill=True))  # for those that are just starting

        def living() -> list[psutil.Process]:
            survey = processes.survey()
            return [process for folder in open_ones for process in folder.processes(survey)]

        assert processes.kill_until_none(living, PATIENCE) == 0
        until(lambda: not any(folder.has_runner for folder in folders), "the runners to end")


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalBench]:
    bench = LocalBench(tmp_path)
    yield bench
    bench.clear()


@pytest.fixture(params=["local", pytest.param("kubernetes", marks=pytest.mark.cluster)])
def bench(request: pytest.FixtureRequest) -> Bench:
    found: Bench = request.getfixturevalue(request.param)
    return found
