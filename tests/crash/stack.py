"""A stack with parts from one parent process.

All cases share a Temporal, a database and a local cluster. Each case has its own worker and task queue.
"""

import asyncio
import json
import signal
import sys
import zipfile
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.assembly.parts import Parts
from crawler_lifecycle.clusters.adapters.catalogue import Catalogue
from crawler_lifecycle.database.migrate import upgrade
from crawler_lifecycle.errors import LifecycleError, TemporaryError
from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.deployment import DeploymentRequest
from crawler_lifecycle.model.naming import RUN_WORKFLOW
from crawler_lifecycle.model.records import RunDetails
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.states import ExportState
from crawler_lifecycle.settings.installation import Installation
from crawler_lifecycle.stack.plan import Ports, StackPlan, make_plan, temporal_part
from tests.crash.calls import CALLS
from tests.crash.children import ChildPlan, wanted, write
from tests.crash.deaths import Deaths
from tests.crash.graph import DEATHS, NOTES
from tests.crash.steps import STEPS
from tests.kit.outside.receivers import Receiver, serving
from tests.kit.service.embedded import Crawlctl
from tests.kit.temporal.servers import SHORT_HISTORIES
from tests.kit.waiting import eventually, eventually_async
from tests.process.crawls import Site, catalogue_of, end_all_of
from tests.process.stops import CRAWLERS

PAUSE = 0.8  # many wait at once
CALM_JOBS = "PAUSE=1\n"  # and so do their jobs
BETWEEN_NUDGES = 2.0  # each makes a look, and the history longer
PATIENCE = 400.0  # a case dies several times, and each time it takes Temporal 10 or 30 seconds to miss it
# what a worker that dies in a step of a workflow costs
SOON_MISSED = ("--dynamic-config-value", 'history.defaultWorkflowTaskTimeout="4s"')
SETTINGS = {
    "CRAWLER_CLUSTER__CAPACITY": "500",
    "CRAWLER_SCHEDULER__TIMEOUT_SECONDS": "6",
    "CRAWLER_DISPATCHER__CLAIM_SECONDS": "8",  # what a dispatcher that dies costs
    "CRAWLER_FLOWS__LEASE_SECONDS": "8",  # and a host of steps
    "CRAWLER_FLOWS__DRAIN_SECONDS": "1",
    "CRAWLER_WORKER__DRAIN_SECONDS": "1",
    "CRAWLER_LIMITS__GRACE_SECONDS": "600",  # only a course that says so comes to the force, however busy the machine
    "CRAWLER_LOG__FORMAT": "json",
    "CRAWLER_AUDIT__EVERY_SECONDS": "0",  # one that comes by itself would go on with what a case has left
    "CRAWLER_WORKER__FLOW_SEARCH_SECONDS": "0",  # and a worker would begin another case's flow on its own task queue
}
AUDITED_AT_ONCE = {f"CRAWLER_AUDIT__{name}_SECONDS": "0" for name in ("WORKFLOW", "JOB", "HANDOVER")}
A = TypeVar("A")
# what processes of ours are given, and what is theirs alone
SECRETS = {"AWS_SECRET_ACCESS_KEY": "aws-c0nf1dent1al", "CRAWLER_SCHEDULER__TOKEN": "token-c0nf1dent1al"}
OF_THE_CRAWLER = "crawler-c0nf1dent1al"
OF_THE_DATABASE = "database-c0nf1dent1al"
HOSTILE = "'; DROP TABLE histories; -- \" $(touch pwned) ../%s{0}\u202e🕷 \\"
HOSTILE_FILE = "$(touch pwned) '\"; %s\u202e\n🕷"
WRITES_WHAT_IT_IS_TOLD = f"import json, sys; json.dump(sys.argv[1:], open({HOSTILE_FILE!a}, 'w'))"
DELISTED = "delisted"  # out of the catalogue before its run is over
HOSTILE_ENTRY = f"""
[crawlers.{json.dumps(HOSTILE, ensure_ascii=False)}]
command = {json.dumps([sys.executable, "-I", "-c", WRITES_WHAT_IT_IS_TOLD])}
argument_flag = "-a"
environment = {{ OWN = "{OF_THE_CRAWLER}" }}
"""
SECRET = "whsec_Y3Jhc2hlcyBhcmUgbm90IHRoZSBlbmQgb2YgaXQ="


@dataclass
class Case:
    """A worker that dies, or whose neighbours misbehave, and the runs that it works for."""

    plan: ChildPlan
    site: Site
    dispatcher: ChildPlan | None = None  # of its own
    begun: list[Started] = field(default_factory=list)
    ended_flows: list[str] = field(default_factory=list)  # uids

    def be_born(self) -> None:
        wanted(self.plan).touch()
        if self.dispatcher:
            Deaths(Path(self.dispatcher.notes), self.dispatcher.deaths).arm()
            wanted(self.dispatcher).touch()

    async def retire(self) -> None:
        """End the case's processes as soon as none of its workflows is open: hundreds of processes fill the memory."""
        async with asyncio.timeout(PATIENCE):
            while await open_workflows(self.site.control, self.plan.name):
                await asyncio.sleep(PAUSE)
        for child in filter(None, (self.plan, self.dispatcher)):
            wanted(child).unlink()

    @property
    def deaths(self) -> Deaths:
        return Deaths(Path(self.plan.notes), self.plan.deaths)

    @property
    def noted(self) -> set[str]:
        return self.deaths.died()

    def notes_of(self, service: str) -> Path:
        """The folder of what has happened to one of the other parts."""
        return Path(self.plan.notes).with_name(service)

    async def begin(self, crawler: str = "gated", *, name: str = "", **request: object) -> Started:
        """A run that exists. `name`: one of several of this case. A worker that dies in every step dies from now on."""
        if STEPS in self.plan.deaths:
            self.deaths.arm()
        workflow_id = "-".join(filter(None, ("crawl", self.plan.name, name)))
        execution = await self._submitted(workflow_id, RunRequest.model_validate({"crawler": crawler, **request}))
        found = await until(lambda: self.site.control.parts.store.runs.find(workflow_id, execution))
        run = Started(
            workflow_id=workflow_id, first_execution_run_id=execution, run_id=found.run_id, run_uid=found.run_uid
        )
        self.site.asked.append(run.run_id)
        self.begun.append(run)
        return run

    async def _submitted(self, workflow_id: str, request: RunRequest) -> str:
        """All begin at once, and Temporal has begun a moment ago."""
        engine = self.site.control.engine
        handle = await patiently(lambda: engine.start(RUN_WORKFLOW, request, workflow_id, "a crash test", join=True))
        return str(handle.first_execution_run_id)

    async def go_on(self, run: Started, workflow_id: str | None = None, *, reopen: bool = False) -> None:
        request = RunRequest(crawler=self.site.details(run).run.crawler, run_id=run.run_id, reopen=reopen)
        await self.site.control.engine.start(RUN_WORKFLOW, request, workflow_id or run.workflow_id, "a crash test")

    async def deploy(self, run: Started, attempt: int, task: int = 0) -> None:
        """A job of this task, asked for by somebody who is not the dispatcher."""
        parts = Parts(self.site.control.installation.settings)
        catalogue = parts.settings.scheduler.catalogue
        assert catalogue
        request = DeploymentRequest(
            installation=str(parts.store.records.installation()),
            run_id=run.run_id,
            run_uid=run.run_uid,
            task=task,
            tasks=task + 1,
            attempt=attempt,
            crawler=Catalogue.load(catalogue).entry("gated"),
        )

        def deployed() -> bool:
            with suppress(TemporaryError):  # the scheduler service may be dead
                return bool(parts.deployer.deploy(request))
            return False

        await until(deployed)

    def delist(self) -> None:
        """Takes the last crawler out of the catalogue."""
        catalogue = self.site.control.installation.settings.scheduler.catalogue
        assert catalogue
        listed, _, _ = catalogue.read_text().partition(f"[crawlers.{DELISTED}]")
        draft = catalogue.with_suffix(".draft")
        draft.write_text(listed)
        draft.rename(catalogue)

    async def nudge_until(self, holds: Callable[[], bool], *runs: Started) -> None:
        """Nudge the runs until this holds: no watcher hears of the change."""
        async with asyncio.timeout(PATIENCE):
            while not holds():
                for run in runs:
                    await self.nudge(run)
                await asyncio.sleep(BETWEEN_NUDGES)

    async def nudge(self, run: Started) -> None:
        with suppress(RPCError):  # its workflow has closed just now
            await self.site.nudge(run)

    async def nudge_until_handed_over(self, run: Started) -> RunDetails:
        async with asyncio.timeout(PATIENCE):
            while (await patiently(lambda: self.site.control.engine.describe(run.workflow_id))).is_open:
                await self.nudge(run)
                await asyncio.sleep(BETWEEN_NUDGES)
        return await self.until_handed_over(run)

    async def until_it_goes_on(self, run: Started) -> None:
        """As a new execution of its workflow."""
        client = await self.site.control.engine.client()
        async with asyncio.timeout(PATIENCE):
            while (await client.get_workflow_handle(run.workflow_id).describe()).run_id == run.first_execution_run_id:
                await asyncio.sleep(PAUSE)

    async def until_handed_over(self, run: Started, ends: int = 1) -> RunDetails:
        """It is over, both exports of each of its ends are made (one that failed is tried again), and nobody has
        anything left to do."""

        def handed_over() -> RunDetails | None:
            details = self.site.details(run)
            made = [each for each in details.exports if each.state is ExportState.DONE]
            return details if details.run.status.is_over and len(made) == 2 * ends else None

        found: RunDetails = await until(handed_over)
        await self.until_closed(run.workflow_id)
        return found

    async def until_closed(self, workflow_id: str) -> None:
        client = await self.site.control.engine.client()

        async with asyncio.timeout(PATIENCE):
            while (await client.get_workflow_handle(workflow_id).describe()).status is WorkflowExecutionStatus.RUNNING:
                await asyncio.sleep(PAUSE)


async def open_workflows(control: Control, task_queue: str = "") -> list[str]:
    of_queue = f" AND TaskQueue = '{task_queue}'" if task_queue else ""
    client = await control.engine.client()
    return [each.id async for each in client.list_workflows(f"ExecutionStatus = 'Running'{of_queue}")]


async def patiently(ask: Callable[[], Awaitable[A]]) -> A:
    """Ask Temporal until it answers: it may be slow while many cases are under way."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(TemporaryError):
                return await ask()
            await asyncio.sleep(PAUSE)


@dataclass
class Stack:
    site: Site
    receiver: Receiver
    cases: dict[str, Case] = field(default_factory=dict)
    services: dict[str, Deaths] = field(default_factory=dict)

    def assert_each_is_one(self, case: Case) -> None:
        """However often anything was tried: one job for each task and attempt, and of each end one closing notice, one
        event of each kind and one archive, for a receiver that knows ids."""
        for run in case.begun:
            ends = case.site.details(run).run.end_number
            self._assert_told_once(run, ends)
            self._assert_exported_once(case, run, ends)
            jobs = case.site.jobs(run).items()
            assert all(job.began == 1 and len(job.ends) <= 1 for _, job in jobs), jobs
        for uid in case.ended_flows:
            self._assert_end_is_announced(case, uid)

    def _assert_end_is_announced(self, case: Case, flow_uid: str) -> None:
        """The flow's only end has one notice and one event, and no delivery is owed."""
        data = [json.loads(request.body)["data"] for request in self.receiver.received]
        notices = {notice["notice_id"] for notice in data if notice.get("flow_uid") == flow_uid}
        events = {line["event_id"] for line in self.site.all_lines("events.jsonl") if line.get("flow_uid") == flow_uid}
        assert (len(notices), len(events)) == (1, 1), (notices, events)
        assert case.site.control.parts.store.flow_ends.owed(flow_uid) == []

    def _assert_told_once(self, run: Started, ends: int) -> None:
        ids = defaultdict(set)
        for each in self.receiver.received:
            notice = json.loads(each.body)
            if notice["data"].get("run_uid") == run.run_uid:
                ids[notice["type"]].add(each.headers["webhook-id"])
        closing = ids["run.finished"] | ids["run.stopped"]
        assert (len(ids["run.started"]), len(closing)) == (ends, ends), ids

    def _assert_exported_once(self, case: Case, run: Started, ends: int) -> None:
        exports = case.site.details(run).exports
        assert Counter(each.kind for each in exports) == {"run_ended": ends, "files_ready": ends}
        told = {line["event_id"] for line in self.site.lines("events.jsonl", run)}
        assert told == {each.event_id for each in exports}
        archives = {each.location for each in exports if each.kind == "files_ready"}
        assert len(archives) == ends
        assert all(Path(str(each)).is_file() for each in archives)

    async def told(self) -> dict[str, bytes]:
        """All that others come to see, by where: payloads and failures of workflows, logs, notices, exports."""
        state = self.site.state
        found = {str(path): path.read_bytes() for path in [*(state / "logs").iterdir(), *state.glob("exports/*.jsonl")]}
        for path in state.glob("exports/*.zip"):
            with zipfile.ZipFile(path) as archive:
                found |= {f"{path}/{name}": archive.read(name) for name in archive.namelist()}
        client = await self.site.control.engine.client()
        async for each in client.list_workflows():
            history = await client.get_workflow_handle(each.id, run_id=each.run_id).fetch_history()
            found[f"{each.id}/{each.run_id}"] = b"".join(event.SerializeToString() for event in history.events)
        sent = b"".join(each.body + json.dumps(dict(each.headers)).encode() for each in self.receiver.received)
        return found | {"webhooks": sent}

    def leftovers(self) -> list[str]:
        """Files that say that something is still to be done."""
        cluster = self.site.state / "cluster"
        folders = [cluster / name for name in ("waiting", "running", "new")]
        drafts = (self.site.state / "exports").glob(".*.part")
        return [str(path) for folder in folders if folder.exists() for path in folder.iterdir()] + [*map(str, drafts)]


async def until(holds: Callable[[], A | None]) -> A:
    """Return the first answer that is true. Many wait at once, and a worker that died is missed late."""
    return await eventually(holds, patience=PATIENCE, pause=PAUSE)


@asynccontextmanager
async def crashing(
    folder: Path, children: Sequence[ChildPlan], new_database: Callable[[str], str] | None = None
) -> AsyncIterator[Stack]:
    """`children`: without their folders and addresses; a worker has the task queue of its name.

    `new_database`: makes one of this name, which is not there yet; without it, SQLite does."""
    state, truth = folder / "state", folder / "truth"
    for each in (state / "logs", truth, folder / "notes"):
        each.mkdir(parents=True)
    catalogue = folder / "catalogue.toml"
    crawlers = {name: CALM_JOBS + first for name, first in {"gated": "", **CRAWLERS, DELISTED: ""}.items()}
    catalogue.write_text(f"{HOSTILE_ENTRY}\n{catalogue_of(truth, crawlers)}")
    receiver = Receiver()
    plan = make_plan(state, Ports.free(), catalogue)
    plan.environment.update(SETTINGS, CRAWLER_NOTICES__WEBHOOKS=f"{receiver.url} {SECRET}", **SECRETS)
    new_database = new_database or (lambda name: f"sqlite:///{state / name}.db")
    plan.environment["CRAWLER_DATABASE__URL"] = url = new_database("crawler")
    upgrade(url)
    placed = [
        replace(child, notes=str(folder / "notes" / child.name), environment=_own(child, new_database))
        for child in children
    ]
    placed += [own for child in placed for own in _beside(child)]
    write(folder / "children.json", plan.child_environment, state / "logs", placed)
    try:
        with serving(receiver), ExitStack() as logs:
            temporal = await _started(
                logs, state / "logs" / "temporal.log", *temporal_part(plan).command, *SHORT_HISTORIES, *SOON_MISSED
            )
            control = _control(plan, {"CRAWLER_WORKER__TASK_QUEUE": "nobody"})
            await eventually_async(lambda: _answers(control), patience=PATIENCE)
            parent = [sys.executable, "-P", "-m", "tests.crash.children", str(folder / "children.json")]
            command = Crawlctl(await _started(None, None, *parent))
            site = Site(state, truth, command, control)
            yield _stack(plan, site, receiver, placed)
            assert command.process.returncode is None, "the parent process has ended"
            assert await command.end(signal.SIGTERM) == 0, command.output
            temporal.terminate()
            await temporal.wait()
    finally:
        end_all_of(folder)


def _stack(plan: StackPlan, site: Site, receiver: Receiver, children: Sequence[ChildPlan]) -> Stack:
    stack = Stack(site, receiver)
    for child in children:
        deaths = Deaths(Path(child.notes), child.deaths)
        if child.part == "lifecycle":
            own = replace(site, control=_control(plan, child.environment), asked=[] if child.alone else site.asked)
            stack.cases[child.name] = Case(child, own, _own_dispatcher(child) if child.dispatched else None)
        elif not child.alone and child.part != "flows":
            stack.services[child.name] = deaths
            deaths.arm()
            wanted(child).touch()
    return stack


def _beside(child: ChildPlan) -> list[ChildPlan]:
    """Return the further parts of a case."""
    return ([_own_dispatcher(child)] if child.dispatched else []) + ([_own_host(child)] if child.hosted else [])


def _own_host(child: ChildPlan) -> ChildPlan:
    """Return the host of the case's steps. It is born with the case's worker, and has the same deaths."""
    own = child.environment | {NOTES: child.notes, DEATHS: json.dumps(child.deaths)}
    return replace(child, name=f"{child.name}.host", part="flows", fault=child.of_host, environment=own)


def _own_dispatcher(child: ChildPlan) -> ChildPlan:
    """Return the dispatcher of the child's installation. It dies around each of its calls, as every dispatcher here."""
    name, part = f"{child.name}.dispatcher", "dispatcher"
    own = {"CRAWLER_DATABASE__URL": child.environment["CRAWLER_DATABASE__URL"]}
    return ChildPlan(name, part, f"{child.notes}.{part}", sorted(CALLS[part]), alone=True, environment=own)


def _own(child: ChildPlan, new_database: Callable[[str], str]) -> dict[str, str]:
    if child.part != "lifecycle":
        return {}
    own = {"CRAWLER_WORKER__TASK_QUEUE": child.name}
    if child.alone:
        own["CRAWLER_DATABASE__URL"] = url = new_database(child.name.replace(".", "_"))
        upgrade(url)
    return own | (AUDITED_AT_ONCE if child.alone else {})


def _control(plan: StackPlan, own: dict[str, str]) -> Control:
    return Control(Installation.with_variables(plan.state, plan.environment | own))


async def _answers(control: Control) -> bool:
    try:
        await control.engine.ping()
    except LifecycleError:
        return False
    return True


async def _started(held: ExitStack | None, log: Path | None, *command: str) -> asyncio.subprocess.Process:
    if log is None or held is None:
        return await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
    output = held.enter_context(log.open("ab"))
    return await asyncio.create_subprocess_exec(*command, stdout=output, stderr=output)
