"""Does the scheduler service keep its promise as a process that is started wrongly, killed and started again?"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from crawler_lifecycle.clusters.adapters.scheduler_client import SchedulerClient
from crawler_lifecycle.clusters.local.cluster import LocalCluster
from crawler_lifecycle.errors import Refused, TemporaryError
from crawler_lifecycle.http.http_process import listen
from crawler_lifecycle.model.deployment import Crawler, DeploymentRequest
from crawler_lifecycle.stack.plan import free_ports
from tests.kit.clusters.schedulers import TOKEN, a_request
from tests.kit.outside.disks import small_disk
from tests.kit.waiting import until

pytestmark = [pytest.mark.process, pytest.mark.system]
CATALOGUE = '[crawlers.sleeper]\ncommand = ["sleep", "300"]\n'


class Process:
    """The service as a process of its own, with its state in a folder that outlives it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"http://127.0.0.1:{free_ports(1)[0]}"
        self.catalogue = folder / "catalogue.toml"
        self.catalogue.write_text(CATALOGUE)
        self.client = SchedulerClient(self.url, TOKEN, timeout=20)
        self.cluster = LocalCluster(folder / "state" / "cluster", folder / "state" / "files", None, 4)

    def start(self, **changes: str | None) -> "subprocess.Popen[str]":
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CRAWLER_")}
        ours = {
            "CRAWLER_STATE": str(self.folder / "state"),
            "CRAWLER_SCHEDULER__URL": self.url,
            "CRAWLER_SCHEDULER__TOKEN": TOKEN,
            "CRAWLER_SCHEDULER__CATALOGUE": str(self.catalogue),
        }
        told = {name: value for name, value in (ours | changes).items() if value is not None}
        command = [sys.executable, "-m", "workers.scheduler"]
        return subprocess.Popen(command, env=environment | told, stderr=subprocess.PIPE, text=True)

    @contextmanager
    def running(self, **changes: str) -> Iterator["subprocess.Popen[str]"]:
        process = self.start(**changes)
        try:
            until(self.answers, "the service answers")
            yield process
        finally:
            process.kill()
            process.communicate(timeout=20)

    def answers(self) -> str | None:
        with suppress(TemporaryError):
            return self.client.check()
        return None

    def metrics(self) -> str:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        with httpx.Client(headers=headers, timeout=20, trust_env=False) as http:
            return http.get(f"{self.url}/metrics").text

    def refusal(self, **changes: str | None) -> str:
        """The one line it ends with when it cannot start."""
        process = self.start(**changes)
        try:
            _, told = process.communicate(timeout=30)
        finally:
            process.kill()
        assert process.returncode == 1
        (line,) = told.splitlines()
        return line


@pytest.fixture
def service(tmp_path: Path) -> Process:
    return Process(tmp_path)


@pytest.fixture
def sleeping(service: Process) -> Iterator[DeploymentRequest]:
    request = a_request(crawler=Crawler(name="sleeper", command=["sleep", "300"]))
    yield request
    service.cluster.kill(request.run_uid, [(request.task, request.attempt)])
    until(lambda: ended(service, request), "the job has ended")


def ended(service: Process, request: DeploymentRequest) -> bool:
    job = service.cluster.look(request.run_uid).jobs.get((request.task, request.attempt))
    return job is None or job.gone


def test_killed_and_started_again_it_knows_its_jobs(service: Process, sleeping: DeploymentRequest) -> None:
    with service.running() as process, ThreadPoolExecutor(8) as pool:
        deployments = list(pool.map(lambda _: service.client.deploy(sleeping), range(16)))
        os.kill(process.pid, signal.SIGKILL)
        process.wait(20)
    assert sum(deployment.created for deployment in deployments) == 1
    with service.running():
        again = service.client.deploy(sleeping)
    assert not again.created
    assert {deployment.job_uid for deployment in deployments} == {again.job_uid}
    (job,) = service.cluster.look(sleeping.run_uid).jobs.values()
    assert not job.phase.has_ended


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_in_order_and_its_jobs_go_on(
    service: Process, sleeping: DeploymentRequest, number: signal.Signals
) -> None:
    with service.running() as process:
        service.client.deploy(sleeping)
        process.send_signal(number)
        assert process.wait(30) == 0
    (job,) = service.cluster.look(sleeping.run_uid).jobs.values()
    assert not job.phase.has_ended


def test_it_deploys_for_its_installation_only(service: Process, sleeping: DeploymentRequest) -> None:
    another = "0d4c7a52-3c55-4d8e-8a6f-1f0b4f6b7c10"
    with service.running(CRAWLER_CLUSTER__INSTALLATION=another), pytest.raises(Refused, match="installation"):
        service.client.deploy(sleeping)
    assert not service.cluster.look(sleeping.run_uid).jobs


def test_its_metrics_show_that_the_disk_with_its_jobs_is_full(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", 60) as folder:  # MiB: less than a disk has to have free
        service = Process(folder)
        (folder / "state" / "cluster").mkdir(parents=True)  # as an earlier service leaves it
        with service.running():
            until(lambda: "scheduler_disk_problem 1.0" in service.metrics(), "the metrics show the problem")


def test_a_port_in_use_is_one_line(service: Process) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        line = service.refusal(CRAWLER_SCHEDULER__URL=url)
    assert url in line
    assert "CRAWLER_SCHEDULER__URL" in line
    assert "in use" in line


@pytest.mark.parametrize("url", ["http://0.0.0.0:8310", "http://192.0.2.1:8310", "http://127.0.0.1:port", "nonsense"])
def test_an_address_it_cannot_listen_on_is_one_line(service: Process, url: str) -> None:
    line = service.refusal(CRAWLER_SCHEDULER__URL=url)
    assert "CRAWLER_SCHEDULER__URL" in line
    assert url in line


def test_no_token_is_one_line(service: Process) -> None:
    assert "CRAWLER_SCHEDULER__TOKEN" in service.refusal(CRAWLER_SCHEDULER__TOKEN="")


def test_a_catalogue_that_is_missing_or_broken_is_one_line(service: Process) -> None:
    service.catalogue.write_text("[crawlers.sleeper]\nprocesses = -1")
    line = service.refusal()
    assert str(service.catalogue) in line
    assert "crawlers.sleeper: processes: " in line
    service.catalogue.unlink()
    assert "No such file" in service.refusal()
    assert "CRAWLER_SCHEDULER__CATALOGUE" in service.refusal(CRAWLER_SCHEDULER__CATALOGUE=None)


def test_a_setting_that_is_wrong_is_one_line(service: Process) -> None:
    assert "CRAWLER_CLUSTER__CAPACITY" in service.refusal(CRAWLER_CLUSTER__CAPACITY="none")


def test_where_jobs_run_elsewhere_it_may_listen_on_every_address() -> None:
    with listen("http://0.0.0.0:0", "CRAWLER_SCHEDULER__URL") as listening:
        assert listening.getsockname()[0] == "0.0.0.0"
