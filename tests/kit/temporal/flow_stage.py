"""A worker for flows on a real ledger, with a host of steps and runs of crawls in the test's hands."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest_asyncio
from temporalio import activity
from temporalio.client import Client, WorkflowHandle
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from crawler_lifecycle.assembly.plugin import activities_of
from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.base.ranges import from_ranges_by_value, to_ranges
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import BadInput, LifecycleError, NotFound
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.activities.crawls import FlowCrawlActivities
from crawler_lifecycle.flows.activities.flows import FlowActivities, FlowAnnouncements, ScheduledFlows
from crawler_lifecycle.flows.model.requests import PushFlow
from crawler_lifecycle.flows.ports.steps import BegunStep, StepEnd
from crawler_lifecycle.flows.rules.ends import AttemptEnd
from crawler_lifecycle.flows.rules.messages import RunSteps, StepsEnded
from crawler_lifecycle.hosts.looks import Followers
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.flow_states import EndKind
from crawler_lifecycle.model.naming import flow_workflow_id, steps_queue
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.requests import RunRequest, StopRequest
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.model.supervision import AuditedRun, WorkflowInfo
from crawler_lifecycle.runs.ports import NewRun
from crawler_lifecycle.runs.rules.plan import RunLimits
from crawler_lifecycle.settings.processes import WorkerSettings
from crawler_lifecycle.temporal.engine import Engine
from tests.kit.data.databases import copy_of, ref_to
from tests.kit.data.flows import Flow

MODULE = "tests.kit.authors.work"
COMPLETED, FAILED, CANCELLED = EndKind.COMPLETED, EndKind.FAILED, EndKind.CANCELLED
HOUR = timedelta(hours=1)
Play = Callable[[BegunStep], Awaitable[dict[str, Any] | None]]


@dataclass
class Host:
    """An activity `run_steps` that plays each step as the test says. `plays`: by the member's path."""

    store: SqlStore
    plays: dict[str, Play] = field(default_factory=dict)
    played: list[str] = field(default_factory=list)  # paths in the order of their claims
    calls: list[RunSteps] = field(default_factory=list)
    scheduled: list[datetime] = field(default_factory=list)  # when each call was scheduled, by the workflow's clock
    before_begin: Callable[[RunSteps], Awaitable[None]] | None = None
    before_answer: Callable[[RunSteps, StepsEnded], Awaitable[StepsEnded]] | None = None
    tokens: list[str] = field(default_factory=list)
    held: dict[str, asyncio.Event] = field(default_factory=dict)
    begun: dict[str, asyncio.Event] = field(default_factory=dict)
    running: set["asyncio.Task[StepsEnded]"] = field(default_factory=set)
    follows: bool = False  # whether the host starts followers by itself

    def hold(self, *paths: str) -> None:
        """Let the members' functions take until `release`."""
        for path in paths:
            self.held[path], self.begun[path] = asyncio.Event(), asyncio.Event()

    def release(self, *paths: str) -> None:
        for path in paths:
            self.held[path].set()

    @activity.defn
    async def run_steps(self, step: RunSteps) -> StepsEnded:
        """Run the steps. The end of the supervisor's execution ends no function."""
        running = asyncio.create_task(self._run(step))
        self.running.add(running)
        return await asyncio.shield(running)

    async def _run(self, step: RunSteps) -> StepsEnded:
        """Begin with a token of its own for each call, as if each call reached another host."""
        self.calls.append(step)
        self.scheduled.append(activity.info().scheduled_time)
        self.tokens.append(token := str(uuid4()))
        if self.before_begin is not None:
            await self.before_begin(step)
        ends: list[AttemptEnd] = []
        waiting, stale, has_lost = list(step.starts), set[int](), False
        followers = Followers(step.followers if self.follows else ())
        attempts = {ref.number: ref.attempt for ref in (*step.starts, *(follower.start for follower in step.followers))}
        while waiting:
            before = followers.before(ref.number for ref in waiting)
            reads = from_ranges_by_value(step.reads) | {number: attempts[number] for number in before}
            ledger = self.store.step_ledger
            await asyncio.to_thread(ledger.renew, token, HOUR)
            inputs = step.flow, step.door, waiting, token, "host", None, reads
            begun = await asyncio.to_thread(ledger.begin, *inputs, in_process=True)
            has_lost |= begun.has_lost
            stale |= {number for number in begun.stale if not followers.refuse(number)}
            new = [*begun.ended, *await self._played(begun.mine, token)]
            for end in new:
                followers.note_end(end)
            ends += new
            waiting = [ref for ref in waiting if ref.number in begun.held]
            await asyncio.sleep(0.05 if waiting else 0)
            waiting += followers.take_due(is_late=False)
        answer = StepsEnded(
            ends=tuple(ends), stale=to_ranges(stale), followed=to_ranges(followers.started), has_lost=has_lost
        )
        return answer if self.before_answer is None else await self.before_answer(step, answer)

    async def _played(self, steps: Any, token: str) -> list[AttemptEnd]:
        self.played += [step.path for step in steps]
        answers = await asyncio.gather(*(self._play(step) for step in steps))
        ends = [StepEnd(step.flow_uid, step.start, **end) for step, end in zip(steps, answers, strict=True)]
        recorded = await asyncio.to_thread(self.store.step_ledger.end, ends, token) if ends else {}
        return list(recorded.values())

    async def _play(self, step: BegunStep) -> dict[str, Any]:
        if step.path in self.held:
            self.begun[step.path].set()
            await self.held[step.path].wait()
        answers = await self.plays[step.path](step) if step.path in self.plays else None
        return {"kind": COMPLETED, "at": datetime.now(UTC), **(answers or {})}


OPEN, MISSING = WorkflowInfo(is_open=True), WorkflowInfo(is_open=False, end="missing")


@dataclass
class Crawls:
    """The workflows of crawls: each makes its run's row, and the test ends the run."""

    store: SqlStore
    engine: Engine
    runs: dict[str, list[RunRecord]] = field(default_factory=dict)  # by the member's path
    stopped: list[str] = field(default_factory=list)
    started: asyncio.Condition = field(default_factory=asyncio.Condition)
    failing: dict[str, str] = field(default_factory=dict)  # messages of workflows that fail, by path
    failed: dict[str, str] = field(default_factory=dict)  # by workflow id

    async def start_crawl(self, workflow_id: str, request: RunRequest) -> None:
        assert request.flow is not None
        path = request.flow.path
        if path in self.failing:
            self.failed[workflow_id] = self.failing.pop(path)
            return
        new = NewRun(request, Crawler(name=request.crawler, command=["true"]), request.tasks or 1, workflow_id, "first")
        async with self.started:
            self.runs.setdefault(path, []).append(await asyncio.to_thread(self.store.runs.create, new))
            self.started.notify_all()

    async def nudge_flow(self, flow_uid: str, flow_id: str) -> None:
        await self.engine.nudge_flow(flow_uid, flow_id)

    async def stop(self, workflow_id: str, stop: StopRequest) -> str:
        if workflow_id in self.failed:
            raise NotFound(f"workflow {workflow_id} is not open")
        self.stopped.append(workflow_id)
        return "signal"

    async def go_on(self, run: RunRecord | AuditedRun, *, reopen: bool = False) -> None:
        raise AssertionError(f"{run.workflow_id} is open: {reopen}")

    async def describe(self, workflow_id: str) -> WorkflowInfo:
        if workflow_id in self.failed:
            return WorkflowInfo(is_open=False, end="failed")
        return OPEN if any(run.workflow_id == workflow_id for runs in self.runs.values() for run in runs) else MISSING

    async def failure(self, workflow_id: str) -> str | None:
        return self.failed.get(workflow_id)

    async def run_of(self, path: str, number: int = 1) -> RunRecord:
        """Wait until the crawl has so many runs, and return the last of these."""
        async with self.started:
            await self.started.wait_for(lambda: len(self.runs.get(path, ())) >= number)
        return self.runs[path][number - 1]

    async def end(
        self,
        path: str,
        status: RunStatus = RunStatus.COMPLETED,
        reason: str = "all_succeeded",
        *,
        number: int = 1,
        nudge: bool = True,
    ) -> None:
        """End the crawl's run, and tell the flow, as the run's worker does."""
        run = await self.run_of(path, number)
        await asyncio.to_thread(self._close, run.run_id, status, reason)
        link = run.request.flow
        assert link is not None
        if nudge:
            await self.nudge_flow(link.flow_uid, link.flow_id)

    def _close(self, run_id: int, status: RunStatus, reason: str) -> None:
        run = ref_to(self.store.runs.get(run_id))
        self.store.tasks.cancel_queued(run, "stopped")
        self.store.runs.close(run, status, reason)


class Catalogue:
    """A catalogue of crawlers, for the check of requests."""

    def crawler(self, name: str) -> Crawler:
        if name not in ("books", "bookshop"):
            raise BadInput("crawler", f"there is no crawler named {name}")
        return Crawler(name=name, command=["true"])


class Receivers:
    """Receivers for notices and events, with an error in the test's hands in place of an answer."""

    def __init__(self) -> None:
        self.notices: list[Any] = []
        self.events: list[Any] = []
        self.trouble: LifecycleError | None = None  # of the receiver of notices
        self.tried = threading.Event()

    def send(self, notice: Any) -> None:
        self.tried.set()
        if self.trouble is not None:
            raise self.trouble
        self.notices.append(notice)

    def announce(self, event: Any) -> None:
        self.events.append(event)

    def check(self) -> str:
        return "receivers"

    check_events = check


class Watched:
    """A port with the test's hooks. `before` and `after`: by the method's name, once, with the call's inputs."""

    def __init__(self, port: Any) -> None:
        self._port = port
        self.before: dict[str, Callable[..., Any]] = {}
        self.after: dict[str, Callable[..., Any]] = {}

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)

        def call(*inputs: Any, **options: Any) -> Any:
            if name in self.before:
                self.before.pop(name)(*inputs)
            answer = method(*inputs, **options)
            if name in self.after:
                self.after.pop(name)(*inputs)
            return answer

        return call


@dataclass
class FlowStage:
    client: Client
    queue: str
    store: SqlStore
    engine: Engine
    host: Host
    crawls: Crawls
    ledger: Watched
    database: Database
    receivers: Receivers = field(default_factory=Receivers)

    def push(self, workflow: Workflow) -> Flow:
        answer = self.store.flow_doors.push(PushFlow(definition=workflow.definition()))
        return Flow(self.store, answer.flow_id, answer.flow_uid)

    async def start(self, workflow: Workflow) -> tuple[Flow, WorkflowHandle[Any, Any]]:
        """Push the graph and start its supervisor, as a door does."""
        flow = self.push(workflow)
        await self.nudge(flow)
        return flow, self.supervisor(flow)

    async def nudge(self, flow: Flow) -> None:
        await self.engine.nudge_flow(flow.uid, flow.id)

    def supervisor(self, flow: Flow) -> WorkflowHandle[Any, Any]:
        return self.client.get_workflow_handle(flow_workflow_id(flow.uid))

    async def run(self, workflow: Workflow) -> Flow:
        """Bring the graph to its end."""
        flow, supervisor = await self.start(workflow)
        await supervisor.result()
        return flow

    @asynccontextmanager
    async def hosting(self) -> AsyncIterator[None]:
        """A host for the module's steps."""
        queue = steps_queue(self.queue, f"default|{MODULE}|any")
        async with Worker(self.client, task_queue=queue, activities=[self.host.run_steps], max_cached_workflows=0):
            yield


@asynccontextmanager
async def flow_stage(
    client: Client,
    database: Database,
    *,
    hosted: bool = True,
    cached_workflows: int = 100,
    receivers_are_files: bool = False,
    receivers_were_files: bool = False,
) -> AsyncIterator[FlowStage]:
    """The stage. `hosted`: with its own host of steps. `receivers_were_files`: only for executions that begin."""
    store, queue = SqlStore(database), f"queue-{uuid4()}"
    engine = Engine({}, queue)
    engine._client = client  # the server skips time only for workflows of the environment's own client
    crawls, ledger = Crawls(store, engine), Watched(store.flow_ledger)
    stage = FlowStage(client, queue, store, engine, Host(store), crawls, ledger, database)
    catalogue: Any = Catalogue()
    watched: Any = ledger
    steps = activities_of(
        FlowActivities(
            watched,
            store.flow_doors,
            search_attributes=True,
            receivers_are_files=receivers_are_files or receivers_were_files,
        ),
        FlowCrawlActivities(watched, store.runs, stage.crawls, catalogue, RunLimits()),
        ScheduledFlows(store.flow_doors, store.flow_records),
        FlowAnnouncements(store.flow_ends, stage.receivers, stage.receivers, receivers_are_files),
    )
    with ThreadPoolExecutor(8) as threads:
        options: dict[str, Any] = {
            "activity_executor": threads,
            "max_cached_workflows": cached_workflows,
            "max_concurrent_workflow_tasks": WorkerSettings(task_queue=queue).workflow_slots,  # as our workers
        }
        host = stage.hosting() if hosted else nullcontext()
        async with Worker(client, task_queue=queue, activities=steps, **options), host:
            yield stage


@pytest_asyncio.fixture
async def skipping_flows(
    skipping: WorkflowEnvironment, sqlite_template: Path, tmp_path: Path
) -> AsyncIterator[FlowStage]:
    """The same, and a supervisor's pauses take no time."""
    database = Database(copy_of(sqlite_template, tmp_path))
    async with flow_stage(skipping.client, database) as stage:
        yield stage
    database.close()


@pytest_asyncio.fixture
async def long_flows(
    short_histories: WorkflowEnvironment, sqlite_template: Path, tmp_path: Path
) -> AsyncIterator[FlowStage]:
    """The same, and the server asks for continue-as-new after a few steps."""
    database = Database(copy_of(sqlite_template, tmp_path))
    async with flow_stage(short_histories.client, database) as stage:
        yield stage
    database.close()


@pytest_asyncio.fixture
async def flows(real_time: WorkflowEnvironment, sqlite_template: Path, tmp_path: Path) -> AsyncIterator[FlowStage]:
    database = Database(copy_of(sqlite_template, tmp_path))
    async with flow_stage(real_time.client, database) as stage:
        yield stage
    database.close()
