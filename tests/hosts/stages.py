"""A flow with a crawl manager, its hosts, and a Temporal that makes runs as rows alone."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from sqlalchemy import select

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.manager_schema import managers
from crawler_lifecycle.errors import BadInput, NotFound, TemporaryError
from crawler_lifecycle.flows.authors.modules import load
from crawler_lifecycle.flows.model.definition import CallForm, StepWork
from crawler_lifecycle.flows.model.turns import Counts
from crawler_lifecycle.flows.rules.messages import RunSteps
from crawler_lifecycle.hosts.host import StepHost
from crawler_lifecycle.hosts.managers.crawls import ManagerCatalogue
from crawler_lifecycle.hosts.managers.hosting import managers_of
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.requests import RunRequest, StopRequest
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.model.supervision import WorkflowInfo
from crawler_lifecycle.runs.ports import NewRun
from crawler_lifecycle.runs.rules.plan import RunLimits
from crawler_lifecycle.settings.processes import FlowSettings
from tests.hosts import managing
from tests.hosts.supervised import Hosted
from tests.kit.data.flows import BOOKS, Flow
from tests.kit.data.managers import pushed_manager

MODULE = managing.__name__
PATIENCE = 30.0
MISSING = WorkflowInfo(is_open=False, end="missing")


@dataclass
class FakeTemporal:
    """Starts runs as rows alone, and remembers how often."""

    flow: Flow
    started: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    made: list[NewRun] = field(default_factory=list)
    reasons: dict[str, str | None] = field(default_factory=dict)  # of the stops, by workflow id
    problems: list[Exception] = field(default_factory=list)  # of the next starts
    is_away: bool = False
    has_worker: bool = True  # whether workflows that start make their runs
    waiting: list[NewRun] = field(default_factory=list)  # for workflows that have no worker yet
    closes: dict[int, str] = field(default_factory=dict)  # workflows that close before they make a run, by item
    loses: set[int] = field(default_factory=set)  # items whose next start gets lost, although it is answered
    workflows: dict[str, WorkflowInfo] = field(default_factory=dict)

    async def start_crawl(self, workflow_id: str, request: RunRequest) -> None:
        if self.is_away:
            raise TemporaryError("Temporal is away")
        if self.problems:
            raise self.problems.pop(0)
        item = int(workflow_id.split("-")[-2])
        if item in self.loses:
            self.loses.remove(item)
            return
        end = self.closes.get(item)
        if end is not None:
            self.workflows[workflow_id] = WorkflowInfo(is_open=False, end=end)
        else:
            self.waiting.append(NewRun(request, BOOKS, 1, workflow_id, str(uuid4())))
            self.made.append(self.waiting[-1])
            if self.has_worker:
                await self.work()
            self.workflows[workflow_id] = WorkflowInfo(is_open=True)
        self.started.append(workflow_id)

    async def work(self) -> None:
        """Let the waiting workflows make their runs."""
        while self.waiting:
            with suppress(Exception):  # a second start of the same attempt
                await asyncio.to_thread(self.flow.store.runs.create, self.waiting.pop(0))

    async def stop(self, workflow_id: str, stop: StopRequest) -> str:
        if self.is_away or workflow_id not in self.workflows:
            raise NotFound("no such workflow")
        self.stopped.append(workflow_id)
        self.reasons[workflow_id] = stop.reason
        return "signal"

    async def describe(self, workflow_id: str) -> WorkflowInfo:
        return self.workflows.get(workflow_id, MISSING)

    async def failure(self, workflow_id: str) -> str | None:
        return "no such entry" if self.workflows[workflow_id].end == "failed" else None


@dataclass
class FakeCatalogue:
    """A scheduler service that knows a few crawlers."""

    crawlers: Collection[str] = ("books",)
    projects: Mapping[str, int | str] = field(default_factory=dict)  # by crawler

    def crawler(self, name: str) -> Crawler:
        if name not in self.crawlers:
            raise BadInput("crawler", f"there is no crawler named {name}")
        return Crawler(name=name, command=["true"], project=self.projects.get(name))


@dataclass
class Stage:
    """A flow with a manager, and hosts for it."""

    database: Database
    flow: Flow
    temporal: FakeTemporal
    folder: Path
    catalogue: FakeCatalogue | None = field(default_factory=FakeCatalogue)
    steps: RunSteps | None = None  # the supervisor's activity, which the next host gets again

    def host(self, **settings: object) -> StepHost:
        options = FlowSettings.model_validate({"lease_seconds": 2, "drain_seconds": 30, **settings})
        catalogue = ManagerCatalogue(self.catalogue, RunLimits())  # type: ignore[arg-type]
        making = partial(managers_of, self.flow.store.managers, self.temporal, catalogue)  # type: ignore[arg-type]
        claims, doors = self.flow.store.step_ledger, self.flow.store.flow_doors
        return StepHost(claims, doors, load([MODULE]), options, "host of the test", managing=making)

    @asynccontextmanager
    async def hosted(self, **settings: object) -> AsyncIterator["asyncio.Task[object]"]:
        """Let a host bring the manager on during the block."""
        host = self.host(**settings)
        async with host.running():
            running = asyncio.create_task(self.brought_on(host))
            yield running
        running.cancel()

    async def brought_on(self, host: StepHost) -> object:
        self.steps = self.steps or await Hosted(self.database, host).starting(self.flow)
        return await host.run(self.steps)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not await asyncio.to_thread(holds):
                await asyncio.sleep(0.05)  # no event tells that a row has changed

    @property
    def counts(self) -> Counts:
        return self.flow.store.manager_doors.statuses(self.flow.id)[0].counts

    async def started(self, number: int) -> None:
        await self.until(lambda: len(set(self.temporal.started)) >= number)

    def end_runs(self, status: RunStatus = RunStatus.COMPLETED, reason: str = "all_succeeded") -> None:
        for run_id in self.flow.store.manager_doors.runs_under_way(self.flow.id):
            self.flow.close(self.flow.store.runs.get(run_id), status, reason)

    def end_one(self) -> None:
        run_id = self.flow.store.manager_doors.runs_under_way(self.flow.id)[0]
        self.flow.close(self.flow.store.runs.get(run_id))

    @property
    def lines(self) -> list[str]:
        return [line.message for line in self.flow.store.flow_records.lines(self.flow.id, after=0, limit=1000)]

    def pids(self) -> list[int]:
        """Processes of the objects so far, in their order."""
        return [int(line.split()[2].rstrip(",")) for line in self.lines if line.startswith("started in")]

    @property
    def setbacks(self) -> dict[str, int]:
        """The counts of failures on record."""
        with self.database.read() as connection:
            record = connection.execute(select(managers.c.setbacks)).scalar_one()
        return dict(record["failures"]) if record else {}

    async def result(self) -> Any:
        results = self.flow.store.flow_records.results
        return (await asyncio.to_thread(results, self.flow.id, [0])).get(0)


def staged(database: Database, folder: Path, name: str, *arguments: str, id: str = "shops/nightly") -> Stage:  # noqa: A002
    """Push a flow with the manager of this name in `managing`."""
    given = [*arguments, "--folder", str(folder)] if name != "Refused" else list(arguments)
    work = StepWork(function=f"{MODULE}:{name}", form=CallForm.MANAGER, arguments=given)
    flow = pushed_manager(database, work, id)
    return Stage(database, flow, FakeTemporal(flow), folder)
