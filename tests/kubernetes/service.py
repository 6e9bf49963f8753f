"""All of ours in front of the bed, as processes: each with no more rights in the cluster than its role has."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.database.migrate import upgrade
from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.records import ALL_RUNS, RunDetails, RunSummary
from crawler_lifecycle.model.requests import RunRequest, StopRequest
from crawler_lifecycle.model.states import IN_CLUSTER, RunStatus, TaskStatus
from crawler_lifecycle.model.supervision import Nudge
from crawler_lifecycle.settings.installation import Installation
from crawler_lifecycle.stack.plan import free_ports
from tests.kit.service.embedded import CRAWLCTL
from tests.kit.waiting import eventually
from tests.kubernetes.bed import Bed
from tests.kubernetes.client import until

ACCOUNTS = {
    "scheduler": "actor", "dispatcher": "actor", "lifecycle": "actor", "watcher": "observer", "api": "observer",
}  # fmt: skip
SHOWN = 5  # of each, in the message of a wait that was in vain
PATIENCE = 120.0
TOKEN = "between-friends"
PATHS = {"jobs": "/apis/batch/v1", "pods": "/api/v1"}


@dataclass
class Service:
    """An installation of ours. `server`: an address in front of the API server, for faults in between."""

    bed: Bed
    namespace: str
    folder: Path
    temporal: str
    database_url: str
    server: str | None = None
    more: Mapping[str, str] = field(default_factory=dict)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    asked: list[Started] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.url, self.api_url = (f"http://127.0.0.1:{port}" for port in free_ports(2))
        self.catalogue = self.folder / "catalogue.toml"
        upgrade(self.database_url)
        self.control = Control(Installation.with_variables(self.folder / "state", self.environment("lifecycle")))

    def crawlers(self, images: Mapping[str, str], more: str = "") -> None:
        """What there is to run, by name: the fate of its pods. `more`: further entries, as in the file."""
        entries = [f'[crawlers.{name}]\ncommand = ["crawl"]\nimage = "{image}"\n' for name, image in images.items()]
        self.catalogue.write_text("\n".join([*entries, more]))

    def environment(self, part: str) -> dict[str, str]:
        return {
            "CRAWLER_STATE": str(self.folder / "state"),
            "CRAWLER_DATABASE__URL": self.database_url,
            "CRAWLER_CLUSTER__KIND": "kubernetes",
            "CRAWLER_KUBERNETES__NAMESPACE": self.namespace,
            "CRAWLER_KUBERNETES__KUBECONFIG": str(self.kubeconfig(ACCOUNTS[part])),
            "CRAWLER_SCHEDULER__URL": self.url,
            "CRAWLER_SCHEDULER__TOKEN": TOKEN,
            "CRAWLER_SCHEDULER__CATALOGUE": str(self.catalogue),
            "CRAWLER_SCHEDULER__TIMEOUT_SECONDS": "8",
            "CRAWLER_API__URL": self.api_url,
            "CRAWLER_API__OPERATOR_TOKEN": TOKEN,
            "CRAWLER_REMOTE__URL": self.api_url,
            "CRAWLER_REMOTE__TOKEN": TOKEN,
            "CRAWLER_DISPATCHER__CLAIM_SECONDS": "40",
            "CRAWLER_WORKER__TASK_QUEUE": f"queue-{self.namespace}-{self.folder.name}",
            "TEMPORAL_ADDRESS": self.temporal,
            "TEMPORAL_CONFIG_FILE": os.devnull,
        } | dict(self.more)

    def kubeconfig(self, account: str) -> Path:
        path = self.folder / f"kubeconfig-{account}"
        if not path.exists():
            path.symlink_to(self.bed.kubeconfig(account, self.namespace, self.server))
        return path.resolve()

    # Processes

    def start(self, *parts: str) -> None:
        for part in parts:
            name = part.partition("-")[0]  # lifecycle-2 is a second one
            with (self.folder / f"{part}.log").open("ab") as log:
                command = [sys.executable, "-P", "-m", f"workers.{name}"]
                self.running[part] = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=_clean() | self.environment(name)
                )

    def kill(self, part: str) -> None:
        process = self.running.pop(part)
        process.kill()
        process.wait()

    def stop(self) -> None:
        for process in self.running.values():
            process.send_signal(signal.SIGTERM)
        for part, process in self.running.items():
            assert process.wait(60) == 0, self.log(part)

    def end(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()
        self.running.pop("api", None)  # the next `crawlctl` starts it again

    def log(self, part: str) -> str:
        return (self.folder / f"{part}.log").read_text()[-4000:]

    # Runs

    async def run(self, crawler: str, **request: object) -> Started:
        """Without retries, unless the request says otherwise: an end is to be seen as the cluster tells it."""
        request = {"retries": {"infrastructure": 0}, **request}
        run = await self.control.runs.start(RunRequest.model_validate({"crawler": crawler, **request}))
        self.asked.append(run)
        return run

    async def stop_run(self, run: Started, **stop: object) -> None:
        await self.control.runs.stop(run.run_id, StopRequest.model_validate({"actor": "ann", "door": "test", **stop}))

    async def nudge(self, run: Started) -> None:
        """As its watcher would."""
        await self.control.engine.nudge(Nudge(run.run_id, run.run_uid, run.workflow_id, 0))

    def details(self, run: Started) -> RunDetails:
        return self.control.runs.show(run.run_id)

    def summary(self, run: Started) -> RunSummary:
        return self.control.runs.select(ALL_RUNS, limit=1, before=run.run_id + 1)[0]

    def counts(self, run: Started) -> dict[TaskStatus, int]:
        return self.summary(run).tasks

    async def until(self, run: Started, status: TaskStatus, count: int, patience: float = PATIENCE) -> None:
        """That many of its tasks have this status."""
        await eventually(
            lambda: self._healthy() and self.counts(run).get(status, 0) >= count,
            patience=patience,
            seen=partial(self.seen, run),
        )

    async def until_in_cluster(self, run: Started, count: int, patience: float) -> None:
        """That many of its tasks have a job, whatever is known of it."""

        def there() -> bool:
            self._healthy()
            return sum(self.summary(run).tasks.get(status, 0) for status in IN_CLUSTER) >= count

        await eventually(there, patience=patience, seen=partial(self.seen, run))

    async def until_over(self, run: Started, patience: float = PATIENCE) -> RunDetails:
        def over() -> RunDetails | None:
            self._healthy()
            if not self.summary(run).status.is_over:  # all the tasks of a large run are much to read
                return None
            details = self.details(run)
            return details if details.is_handed_over else None

        details: RunDetails = await eventually(over, patience=patience, seen=partial(self.seen, run))
        return details

    async def until_waiting(self, run: Started, cause: str, patience: float = PATIENCE) -> RunDetails:
        def waits() -> RunDetails | None:
            details = self.details(run)
            causes = {details.run.waiting_cause, *(task.cause for task in details.tasks)}
            return details if cause in causes else None

        details: RunDetails = await eventually(waits, patience=patience, seen=partial(self.seen, run))
        return details

    def seen(self, run: Started) -> str:
        """Say how the run, its tasks, jobs and pods stand, for a wait that was in vain."""
        details = self.details(run)
        tasks = [(row.task, row.attempt, str(row.status), row.cause, row.reason) for row in details.tasks[:SHOWN]]
        there = [
            (thing["metadata"]["name"], thing["metadata"].get("deletionTimestamp"), thing.get("status"))
            for kind in ("jobs", "pods")
            for thing in self.objects(kind, run)[:SHOWN]
        ]
        looked = f"looked at {details.run.last_look_at}, next {details.run.next_look_at}: {details.run.look_problem}"
        return f"{details.run.status} {details.run.waiting_cause}; {looked}; tasks {tasks}; in the cluster {there}"

    def answers(self) -> bool:
        """The scheduler service does."""
        return self._answers(self.url)

    def _answers(self, url: str) -> bool:
        self._healthy()
        try:
            return httpx.get(f"{url}/readyz", trust_env=False).is_success
        except httpx.TransportError:
            return False

    def _healthy(self) -> bool:
        for part, process in self.running.items():
            assert process.poll() is None, f"{part} has ended:\n{self.log(part)}"
        return True

    def objects(self, kind: str, run: Started | None = None) -> list[dict[str, Any]]:
        """Jobs or pods in the namespace, of this run or of all."""
        chosen = {"labelSelector": f"crawler-lifecycle/run-uid={run.run_uid}"} if run else {}
        return self.bed.admin.items(f"{PATHS[kind]}/namespaces/{self.namespace}/{kind}", **chosen)

    def paths(self, kind: str, run: Started) -> list[str]:
        base = f"{PATHS[kind]}/namespaces/{self.namespace}/{kind}"
        return [f"{base}/{each['metadata']['name']}" for each in self.objects(kind, run)]

    def left(self, run: Started) -> list[str]:
        """What there is of it in the cluster, alive or not."""
        return self.paths("jobs", run) + self.paths("pods", run)

    def pod(self, run: Started) -> str:
        """The path of its only one."""
        (path,) = self.paths("pods", run)
        return path

    def crawlctl(self, *words: str) -> str:
        """What a user of that command would read."""
        if "api" not in self.running:
            self.start("api")
            until(partial(self._answers, self.api_url), "the API to answer", PATIENCE)
        told = subprocess.run(
            [*CRAWLCTL, *words],
            env=_clean() | self.environment("lifecycle"),
            capture_output=True,
            text=True,
            check=False,
        )
        return told.stdout + told.stderr

    def told(self, what: str, run: Started) -> list[dict[str, Any]]:
        """The notices or the events about this run, in their order."""
        path = self.folder / "state" / "exports" / f"{what}.jsonl"
        written, _, _ = path.read_bytes().rpartition(b"\n") if path.exists() else (b"", b"", b"")
        lines = map(json.loads, written.splitlines())
        return [line for line in lines if line["run_uid"] == run.run_uid]

    # What must hold at the end of every run

    async def assert_clean(self) -> None:
        """Of its runs nothing is left in the cluster, each end was told once, and the database holds nothing open."""
        for run in self.asked:
            details = await self.until_over(run)
            assert all(task.status.is_over for task in details.tasks)
            closing = [each for each in self.told("notices", run) if each["kind"] in ("finished", "stopped")]
            assert len(closing) == details.run.end_number, closing
        for run in self.asked:
            await self.until_gone(run)

    async def until_gone(self, run: Started, patience: float = 300) -> None:
        for kind in ("pods", "jobs"):
            await eventually(partial(self._are_gone, kind, run), patience=patience, seen=partial(self.seen, run))

    def _are_gone(self, kind: str, run: Started) -> bool:
        left = {item["metadata"]["name"] for item in self.objects(kind, run)}
        return left <= (self._for_the_audit(run) if kind == "jobs" else set())

    def _for_the_audit(self, run: Started) -> set[str | None]:
        """The jobs that wait for the audit: their pods were gone before the evidence was collected (decision 18)."""
        ended_by_itself = (TaskStatus.SUCCEEDED, TaskStatus.FAILED)
        tasks = self.details(run).tasks
        return {task.job_name for task in tasks if task.status in ended_by_itself and task.node is None}


def living_pod(service: Service, run: Started) -> str:
    """Return the path of the only pod of the run that has not ended."""
    (name,) = [
        pod["metadata"]["name"]
        for pod in service.objects("pods", run)
        if pod["status"]["phase"] not in ("Succeeded", "Failed")
    ]
    return f"/api/v1/namespaces/{service.namespace}/pods/{name}"


def assert_completed(details: RunDetails, tasks: int) -> None:
    others = [task for task in details.tasks if task.status is not TaskStatus.SUCCEEDED]
    told = [(task.task, task.status, task.reason, task.exit_code, task.message, task.events) for task in others]
    assert not told, f"run {details.run.run_id} is {details.run.status}, {details.run.reason}: {told}"
    assert (details.run.status, details.run.reason) == (RunStatus.COMPLETED, "all_succeeded")
    assert details.run.tasks == {TaskStatus.SUCCEEDED: tasks}


@asynccontextmanager
async def served(service: Service, *parts: str) -> AsyncIterator[Service]:
    """While it runs; ended in order unless the test failed."""
    service.start(*(parts or ("scheduler", "dispatcher", "watcher", "lifecycle")))
    try:
        await eventually(service.answers, patience=PATIENCE)
        yield service
        await asyncio.to_thread(service.stop)
    finally:
        service.end()


@contextmanager
def said(service: Service) -> Iterator[None]:
    """A test that fails shows what the processes said."""
    try:
        yield
    except BaseException as error:
        for part in service.running:
            error.add_note(f"--- {part}\n{service.log(part)}")
        raise


def _clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("CRAWLER_", "TEMPORAL_"))}
