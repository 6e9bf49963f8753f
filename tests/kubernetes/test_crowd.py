"""Fifty runs in every stage live through outages of a real API server, one at a time and two at a time: they wait, go
on with the jobs that they had, and end as these end."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field

import pytest
import pytest_asyncio
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.records import RunDetails
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from tests.kit.data.databases import create_database
from tests.kit.waiting import eventually
from tests.kubernetes import fates
from tests.kubernetes.bed import Bed
from tests.kubernetes.service import Service, assert_completed, said, served

pytestmark = pytest.mark.timeout(600)

RUNNING, STOPPING, WAITING, END, STOP = 24, 10, 10, 4, 2
BEGIN = END + STOP  # at each outage so many end, are stopped, and are asked for
LASTS = 5.0
FOR_LONG = 3600
SETTLED = 150.0
ENDS_IN_IT = fates.after(fates.SUCCEEDS, "6s")
HUGE = '[crawlers.waits]\ncommand = ["crawl"]\nimage = "fate/runs"\nresources = { memory = "100Ti" }\n'
SETTINGS = {"CRAWLER_SCHEDULER__TIMEOUT_SECONDS": "20", "CRAWLER_DISPATCHER__CLAIM_SECONDS": "40"}
IN_STAGE = {
    "runs": (RunStatus.PROCESSING, TaskStatus.RUNNING),
    "ignores": (RunStatus.STOPPING, TaskStatus.STOPPING),
    "waits": (RunStatus.INITIALIZING, TaskStatus.PENDING),
}


@contextmanager
def killed(service: Service, program: str) -> Iterator[None]:
    service.bed.programs[program].kill()
    try:
        yield
    finally:
        service.bed.start_program(program)


@contextmanager
def away(service: Service, part: str) -> Iterator[None]:
    service.kill(part)
    try:
        yield
    finally:
        service.start(part)


OUTAGES: dict[str, Callable[[Service], AbstractContextManager[None]]] = {
    "API server killed": lambda service: killed(service, "kube-apiserver"),
    "API server frozen": lambda service: service.bed.frozen("kube-apiserver"),
    "etcd killed": lambda service: killed(service, "etcd"),
    "controllers frozen": lambda service: service.bed.frozen("kube-controller-manager"),
    "worker killed": lambda service: away(service, "lifecycle"),
    "watcher killed": lambda service: away(service, "watcher"),
}
TOGETHER = [
    ("API server killed",),
    ("API server frozen",),
    ("API server killed", "worker killed"),
    ("API server frozen", "watcher killed"),
    ("etcd killed", "controllers frozen"),
]


@dataclass
class Crowd:
    """By stage, each run with its job as it was first seen."""

    service: Service
    runs: dict[str, list[Started]] = field(default_factory=dict)
    jobs: dict[int, str | None] = field(default_factory=dict)

    async def gather(self) -> None:
        counts = {"ignores": STOPPING, "runs": RUNNING, "waits": WAITING}
        asked = await asyncio.gather(*(self._ask(crawler) for crawler, count in counts.items() for _ in range(count)))
        for crawler, count in counts.items():
            self.runs[crawler], asked = asked[:count], asked[count:]
        for run in self.runs["ignores"]:
            await self.service.until(run, TaskStatus.RUNNING, 1)
            await self.service.stop_run(run)
        await self._until_in_stage()

    async def live_through(self, *names: str) -> None:
        ending = await asyncio.gather(*(self._ask("ends") for _ in range(END)))
        stopped, self.runs["runs"] = self.runs["runs"][:STOP], self.runs["runs"][STOP:]
        for run in ending:
            await self._until_begun(run)
        with ExitStack() as outages:
            for name in names:
                outages.enter_context(OUTAGES[name](self.service))
            began = asyncio.gather(*(self._ask("runs") for _ in range(STOP)), *(self._ask("ends") for _ in range(END)))
            stops = asyncio.gather(*(self.service.stop_run(run) for run in stopped))
            await asyncio.sleep(LASTS)
        await stops
        begun = await began
        self.runs["runs"] += begun[:STOP]
        for run in [*ending, *begun[STOP:]]:
            assert_completed(await self.service.until_over(run, SETTLED), 1)
        for run in stopped:
            assert_stopped(await self.service.until_over(run, SETTLED), "stopped")
        await self._until_in_stage()

    async def end(self) -> None:
        for run in [*self.runs["runs"], *self.runs["waits"]]:
            await self.service.stop_run(run)
        for run in self.runs["ignores"]:
            await self.service.stop_run(run, force=True)
        for crawler, runs in self.runs.items():
            for run in runs:
                forced = crawler == "ignores"
                assert_stopped(await self.service.until_over(run, SETTLED), "stopped_forced" if forced else "stopped")

    async def _ask(self, crawler: str) -> Started:
        return await self.service.run(crawler, grace_seconds=FOR_LONG)

    async def _until_begun(self, run: Started) -> None:
        """On a busy machine the first look at it may come when it has ended."""

        def begun() -> bool:
            return not {TaskStatus.RUNNING, TaskStatus.SUCCEEDED}.isdisjoint(self.service.counts(run))

        await eventually(begun, patience=SETTLED)

    async def _until_in_stage(self) -> None:
        """Nobody is ended, lost, or has another job than before; and the cluster has these jobs, and no other one of
        these runs."""
        await eventually(
            lambda: all(self._is_in_stage(crawler, run) for crawler, run in self._alive()), patience=SETTLED
        )
        made = Counter(job["metadata"]["labels"]["crawler-lifecycle/run-uid"] for job in self.service.objects("jobs"))
        assert {run.run_uid: made[run.run_uid] for _, run in self._alive()} == {
            run.run_uid: 1 for _, run in self._alive()
        }

    def _is_in_stage(self, crawler: str, run: Started) -> bool:
        details = self.service.details(run)
        (task,) = details.tasks
        if (details.run.status, task.status) != IN_STAGE[crawler] or task.job_uid is None:
            return False
        assert self.jobs.setdefault(run.run_id, task.job_uid) == task.job_uid
        return True

    def _alive(self) -> list[tuple[str, Started]]:
        return [(crawler, run) for crawler, runs in self.runs.items() for run in runs]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def crowd(
    bed: Bed, tmp_path_factory: pytest.TempPathFactory, real_time: WorkflowEnvironment, mariadb_server: int
) -> AsyncIterator[Crowd]:
    namespace = bed.namespace()
    address = real_time.client.service_client.config.target_host
    url = create_database(mariadb_server, "crowd")
    service = Service(bed, namespace, tmp_path_factory.mktemp("crowd"), address, url, more=SETTINGS)
    service.crawlers({"ends": ENDS_IN_IT, "runs": fates.RUNS, "ignores": fates.IGNORES}, HUGE)
    async with served(service):
        crowd = Crowd(service)
        await crowd.gather()
        yield crowd
    bed.remove_namespace(namespace)


@pytest.mark.parametrize("names", TOGETHER, ids=" and ".join)
async def test_the_crowd_lives_through_it(crowd: Crowd, names: tuple[str, ...]) -> None:
    with said(crowd.service):
        await crowd.live_through(*names)


async def test_and_all_of_them_end(crowd: Crowd) -> None:
    with said(crowd.service):
        await crowd.end()
        await crowd.service.assert_clean()


def assert_stopped(details: RunDetails, reason: str) -> None:
    assert (details.run.status, details.run.reason) == (RunStatus.FAILED, reason)
    assert details.run.tasks == {TaskStatus.STOPPED: 1}
