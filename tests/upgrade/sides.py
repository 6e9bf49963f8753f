"""One installation whose parts are processes of either version: they share Temporal, database, cluster, task queue."""

import asyncio
import signal
import socket
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import ResetStickyTaskQueueRequest

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.migrate import revision
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.states import TaskStatus
from crawler_lifecycle.settings.installation import Installation
from crawler_lifecycle.stack.plan import Ports, StackPlan, make_plan, temporal_part
from tests.kit.outside.receivers import Receiver, serving
from tests.kit.service.embedded import CRAWLCTL, Crawlctl, environment
from tests.kit.waiting import eventually, eventually_async
from tests.process.crawls import PATIENCE, Site, catalogue_of, end_all_of
from tests.process.stops import CRAWLERS

SERVICES = ("scheduler", "dispatcher", "watcher")
SECRET = "whsec_dHdvIHZlcnNpb25zIHNpZGUgYnkgc2lkZQ=="
Process = asyncio.subprocess.Process


@dataclass
class Sides:
    """`released`: the code of the version before."""

    plan: StackPlan
    site: Site
    receiver: Receiver
    released: Path
    logs: Path
    services: dict[str, Process] = field(default_factory=dict)

    async def crawlctl(self, *words: str, old: bool = False) -> tuple[int, str]:
        process = await self._begin(*CRAWLCTL, *words, old=old, output=asyncio.subprocess.PIPE)
        told, _ = await process.communicate()
        return process.returncode or 0, told.decode()

    async def start(self, part: str, *, old: bool = False) -> Process:
        with (self.logs / f"{part}-{'old' if old else 'new'}.log").open("ab") as log:
            return await self._begin(sys.executable, "-P", "-m", f"workers.{part}", old=old, output=log)

    async def start_services(self, *, old: bool = False) -> None:
        """In the place of those that there are."""
        await asyncio.gather(*map(end, self.services.values()))
        self.services = {part: await self.start(part, old=old) for part in SERVICES}
        await eventually_async(
            _answering(lambda: asyncio.to_thread(self.site.control.parts.deployer.check)), patience=PATIENCE
        )

    async def start_worker(self, *, old: bool = False) -> Process:
        """One that asks the task queue for work."""
        worker = await self.start("lifecycle", old=old)
        engine = self.site.control.engine

        async def polls() -> bool:
            assert worker.returncode is None, "the worker has ended: its log tells why"
            return any(identity.startswith(f"{worker.pid}@") for identity in await engine.pollers())

        await eventually_async(polls, patience=PATIENCE)
        return worker

    # The database

    def revision(self) -> str | None:
        with self.database() as database, database.read() as connection:
            return revision(connection)

    @contextmanager
    def database(self) -> Iterator[Database]:
        """Whatever its schema is."""
        database = Database(self.plan.environment["CRAWLER_DATABASE__URL"], pool_size=1)
        try:
            yield database
        finally:
            database.close()

    async def begin(self, crawler: str = "gated", *, tasks: int = 1, **request: object) -> Started:
        """A run whose tasks all run, whatever the schema is: asked for as any program does that speaks to Temporal."""
        workflow_id = f"crawl-{uuid4()}"
        execution = await self.site.submit(workflow_id, crawler, tasks=tasks, **request)
        with self.database() as database:
            store = SqlStore(database)
            found: RunRecord = await eventually(lambda: store.runs.find(workflow_id, execution), patience=PATIENCE)
            run = Started(
                workflow_id=workflow_id, first_execution_run_id=execution, run_id=found.run_id, run_uid=found.run_uid
            )

            def statuses() -> list[TaskStatus]:
                return [task.status for task in store.records.tasks(run.run_id, first=0, limit=tasks)]

            await eventually(lambda: statuses() == [TaskStatus.RUNNING] * tasks, patience=PATIENCE)
        await eventually(lambda: len(self.site.jobs(run)) == tasks, patience=PATIENCE)
        self.site.asked.append(run.run_id)
        return run

    # Temporal

    async def workers_of(self, run: Started) -> dict[int, set[str]]:
        """Which processes have brought the run's workflow forward, and with what: its own steps, or activities."""
        return {pid: set(done) for pid, done in (await self.work_on(run)).items()}

    async def work_on(self, run: Started) -> dict[int, Counter[str]]:
        found = defaultdict[int, Counter[str]](Counter)
        async for event in self.history(run):
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
                found[_pid(event.workflow_task_completed_event_attributes.identity)]["steps"] += 1
            if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
                found[_pid(event.activity_task_completed_event_attributes.identity)]["activities"] += 1
        return found

    async def until_both_worked(self, run: Started, *workers: Process) -> None:
        """A worker that knows a run is asked first: that is forgotten before each look, so that it falls to any."""
        wanted = {worker.pid for worker in workers}

        async def worked() -> bool:
            done = await self.work_on(run)
            if all(set(done[pid]) == {"steps", "activities"} for pid in wanted):
                return True
            await self.forget_worker(run)
            await self.site.nudge(run)
            await eventually_async(lambda: self._is_brought_forward(run, _activities(done)), patience=PATIENCE)
            return False

        await eventually_async(worked, patience=PATIENCE)

    async def _is_brought_forward(self, run: Started, since: int) -> bool:
        return _activities(await self.work_on(run)) > since

    async def forget_worker(self, run: Started) -> None:
        client = await self.site.control.engine.client()
        execution = WorkflowExecution(workflow_id=run.workflow_id)
        await client.workflow_service.reset_sticky_task_queue(
            ResetStickyTaskQueueRequest(namespace=client.namespace, execution=execution)
        )

    async def history(self, run: Started) -> AsyncIterator[HistoryEvent]:
        client = await self.site.control.engine.client()
        async for event in client.get_workflow_handle(run.workflow_id).fetch_history_events():
            yield event

    async def _begin(self, *command: str, old: bool, output: Any) -> Process:
        path = {"PYTHONPATH": str(self.released)} if old else {}
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            env=environment(self.plan.state.parent, self.plan.environment) | path,
            cwd=self.plan.state,
        )


async def end(process: Process) -> None:
    """In order: what is under way is finished."""
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(60):
        assert await process.wait() == 0


@asynccontextmanager
async def sides(folder: Path, released: Path, url: str | None) -> AsyncIterator[Sides]:
    """Temporal runs and nothing else; the database is not there yet, or empty."""
    state, truth, logs = folder / "state", folder / "truth", folder / "logs"
    for each in (state, truth, logs):
        each.mkdir(parents=True)
    catalogue = folder / "catalogue.toml"
    catalogue.write_text(catalogue_of(truth, CRAWLERS))
    receiver = Receiver()
    plan = make_plan(state, Ports.free(), catalogue)
    plan.environment["CRAWLER_NOTICES__WEBHOOKS"] = f"{receiver.url} {SECRET}"
    plan.environment.update({"CRAWLER_DATABASE__URL": url} if url else {})
    control = Control(Installation.with_variables(state, plan.environment))
    try:
        with serving(receiver), (logs / "temporal.log").open("ab") as log:
            temporal = await asyncio.create_subprocess_exec(*temporal_part(plan).command, stdout=log, stderr=log)
            await eventually_async(_answering(control.engine.ping), patience=PATIENCE)
            yield Sides(plan, Site(state, truth, Crawlctl(temporal), control), receiver, released, logs)
            temporal.terminate()
            await temporal.wait()
    finally:
        end_all_of(folder)


def _answering(ask: Callable[[], Awaitable[object]]) -> Callable[[], Awaitable[bool]]:
    async def answers() -> bool:
        try:
            await ask()
        except LifecycleError:
            return False
        return True

    return answers


def _activities(work: dict[int, Counter[str]]) -> int:
    return sum(done["activities"] for done in work.values())


def _pid(identity: str) -> int:
    """Return the worker's process from the identity `PID@machine`, to which this version adds `#` and a number."""
    pid, _, machine = identity.partition("#")[0].partition("@")
    assert machine == socket.gethostname(), identity
    return int(pid)
