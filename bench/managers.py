"""Crawl managers: real crawls in sequence, a million parameter sets with faked runs, and waiting managers.

Faked runs start at the port and end a moment later. Their figures are a manager's own: host, object and ledger.
"""

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
from sqlalchemy import func, select

from bench import manager_steps
from bench.embedded import part_of, planned_stack
from bench.manager_crowds import Crowd, closed, put_ends_on_record
from bench.measuring import cpu_seconds
from bench.table import Scale, Table
from crawler_lifecycle.adapters.sql.database import Database
from crawler_lifecycle.adapters.sql.manager_schema import manager_attempts, manager_items, managers
from crawler_lifecycle.adapters.sql.migrate import upgrade
from crawler_lifecycle.adapters.sql.store import SqlStore
from crawler_lifecycle.contract.flows.definition import FlowDefinition, MemberDefinition
from crawler_lifecycle.contract.flows.requests import PushFlow
from crawler_lifecycle.contract.flows.work import CallForm, StepWork
from crawler_lifecycle.contract.managers.items import ItemState
from crawler_lifecycle.control.control import Control
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.services.embedded.plan import StepModules
from crawler_lifecycle.services.embedded.stack import Stack
from tests.contracts.flows import Flow
from tests.services.flows.supervised import planned

CATALOGUE = '[crawlers.nothing]\ncommand = ["true"]\n'
MIB = 1024 * 1024
AT_ONCE = 200
GATE = "gate"  # file
SETS_IN_A_CROWD = 40  # for every manager in a crowd
LOOK = 0.5
IDLE_SECONDS = 60.0
COLUMNS = (
    "what",
    "sets or jobs",
    "s",
    "jobs/s",
    "CPU ms a job",
    "statements a job",
    "host, MiB",
    "object, MiB",
    "result",
)
Row = tuple[object, ...]
Played = Callable[[Stack, Control, Scale], Awaitable[Row]]


def measure(scale: Scale) -> Table:
    """Measure all rows, or the rows with `scale.row` in their names."""
    rows = [play(scale) for name, play in FAKED.items() if scale.row in name]
    on_a_stack = [play for name, play in ON_A_STACK.items() if scale.row in name]
    return Table(COLUMNS, rows + (_on_a_stack(scale, on_a_stack) if on_a_stack else []))


def _undisturbed(scale: Scale) -> Row:
    return _faked("undisturbed", manager_steps.Repeating, scale.manager_sets, scale.manager_seconds)


def _without_cursor(scale: Scale) -> Row:
    return _faked("no cursor", manager_steps.Repeating, scale.manager_sets, scale.manager_seconds, kills=3)


def _with_cursor(scale: Scale) -> Row:
    sets, pause = scale.manager_sets // 10, scale.kill_seconds
    return _faked("cursor", manager_steps.WithCursor, sets, scale.manager_seconds, kills=1000, pause=pause)


def _ends_at_once(scale: Scale) -> Row:
    """Measure the reactions to ends during an outage."""
    ends = scale.ends_at_once
    given = [("faked", manager_steps.Repeating, ends)]
    with _hosted(given, partial(put_ends_on_record, ends=ends)) as hosted:
        took = hosted.watch(scale.manager_seconds)
        _, jobs = closed(hosted.database)
        result = "exact" if jobs == ends else f"time is over: {jobs:,} reactions"
        return ("ends at once after an outage", ends, *hosted.figures(took, jobs), result)


def _many_managers(scale: Scale) -> Row:
    """Measure a host with many managers at work."""
    number, sets = scale.managers_at_once, SETS_IN_A_CROWD
    given = [(f"crowd-{at}", manager_steps.Gated, sets) for at in range(number)]
    with _hosted(given) as hosted:
        begun = hosted.crowd.watch(lambda: hosted.crowd.objects >= number, scale.manager_seconds / 2)
        (hosted.folder / GATE).touch()
        took = hosted.watch(scale.manager_seconds / 2)
        ended, jobs = closed(hosted.database)
        is_exact = (ended, jobs) == (number, number * sets // 2)
        verdict = "exact" if is_exact else f"{ended} managers and {jobs:,} jobs have ended"
        what = f"{number} managers at work on a host"
        result = f"{verdict}; {hosted.crowd.memory}, and began in {begun:.0f} s"
        return (what, number * sets, *hosted.figures(took, jobs), result)


def _on_a_stack(scale: Scale, plays: Sequence[Played]) -> list[Row]:
    """Measure the rows on an embedded stack, one after the other."""
    with planned_stack(
        CATALOGUE,
        {"CRAWLER_FLOWS__MANAGER_SLOTS": str(scale.idle_managers + 1)},
        StepModules((manager_steps.__name__, "bench.flow_steps")),
    ) as stack:

        async def played() -> list[Row]:
            async with stack.running() as control:
                return [await play(stack, control, scale) for play in plays]

        return asyncio.run(played())


@dataclass
class Faked:
    """A manager's host in its own process, with faked runs on its own database."""

    folder: Path
    url: str
    flow: Flow
    database: Database
    process: subprocess.Popen[bytes]
    cpu: float = 0.0  # for hosts and objects, at the last look
    host_mib: float = 0.0
    object_mib: float = 0.0
    former: float = 0.0  # CPU for killed processes

    def look(self) -> None:
        """Note memory and CPU for the host and the object's process."""
        try:
            host = psutil.Process(self.process.pid)
            children = host.children()
            self.host_mib = max(self.host_mib, host.memory_info().rss / MIB)
            self.object_mib = max([self.object_mib, *(child.memory_info().rss / MIB for child in children)])
            self.cpu = self.former + sum(map(cpu_seconds, [host, *children])) + cpu_seconds(host, children=True)
        except psutil.NoSuchProcess:
            return

    def kill(self) -> None:
        self.former = self.cpu
        self.process.kill()
        self.process.wait()
        self.process = started(self.folder, self.url)


def _faked(what: str, manager: type, sets: int, seconds: float, *, kills: int = 0, pause: float | None = None) -> Row:
    """Play the manager to its end, or for so long. `pause`: seconds between kills; None: kills at equal shares."""
    with TemporaryDirectory(prefix="bench-manager-") as name:
        folder, url = Path(name), f"sqlite:///{name}/crawler.db"
        upgrade(url)
        database = Database(url)
        flow = _pushed(database, manager, sets)
        (folder / "steps.json").write_text(planned(flow)[1][0].model_dump_json())
        faked = Faked(folder, url, flow, database, started(folder, url))
        try:
            return _played(faked, what, sets, seconds, kills, pause)
        finally:
            faked.process.kill()
            faked.process.wait()
            database.close()


def _played(faked: Faked, what: str, sets: int, seconds: float, kills: int, pause: float | None) -> Row:
    began, killed = time.monotonic(), 0
    while faked.process.poll() is None and time.monotonic() - began < seconds:
        time.sleep(LOOK)
        faked.look()
        is_due = killed < kills and (
            _read(faked) >= sets * (killed + 1) / (kills + 1)
            if pause is None
            else time.monotonic() - began >= pause * (killed + 1)
        )
        if is_due:
            faked.kill()
            killed += 1
    took = time.monotonic() - began
    figures = faked.folder / "figures.json"
    done, result = _verdict(faked, sets)
    counted = json.loads(figures.read_text()) if figures.exists() and not killed else {}
    deaths = f", {killed} kills" if kills else ""
    return (
        f"{what}{deaths}",
        sets,
        took,
        done / took,
        1000 * faked.cpu / max(done, 1),
        counted["statements"] / max(done, 1) if counted else "-",
        faked.host_mib,
        faked.object_mib,
        result,
    )


def _verdict(faked: Faked, sets: int) -> tuple[int, str]:
    """Return the number for ended jobs, and whether the ledger is exact."""
    with faked.database.engine.connect() as connection:
        row = connection.execute(select(managers)).one()
        grouped = select(manager_items.c.state, func.count()).group_by(manager_items.c.state)
        states = {state: count for state, count in connection.execute(grouped)}  # noqa: C416 - rows are no pairs for mypy
        tried = connection.execute(select(func.count(), func.count(manager_attempts.c.reacted_at))).one()
    done = states.get(ItemState.COMPLETED, 0)
    expected = (sets // 2 + sets % 2, sets // 2)
    if row.closed_at is None:
        return done, f"time is over: {row.read_sets:,} sets were read, {done:,} jobs have ended"
    is_exact = (row.completed, row.repeated) == expected and tuple(tried) == (expected[0],) * 2 and done == expected[0]
    return done, "exact" if is_exact else f"NOT exact: {row.completed}, {row.repeated}, {states}, {tuple(tried)}"


@dataclass
class Hosted:
    """Managers on a host in its own process."""

    folder: Path
    database: Database
    process: subprocess.Popen[bytes]
    crowd: Crowd

    def watch(self, seconds: float) -> float:
        return self.crowd.watch(lambda: self.process.poll() is not None, seconds)

    def figures(self, took: float, jobs: int) -> Row:
        """Return the columns from the time to the largest object's memory."""
        crowd, figures = self.crowd, self.folder / "figures.json"
        statements = json.loads(figures.read_text())["statements"] / max(jobs, 1) if figures.exists() else "-"
        return (took, jobs / took, 1000 * crowd.cpu / max(jobs, 1), statements, crowd.host_mib, crowd.largest_mib)


@contextmanager
def _hosted(
    given: Sequence[tuple[str, type, int]], prepare: Callable[[Database, Flow], None] | None = None
) -> Iterator[Hosted]:
    """Host managers, given by name, class and number of sets. `prepare`: puts more about a flow on record before."""
    with TemporaryDirectory(prefix="bench-manager-") as name:
        folder, url = Path(name), f"sqlite:///{name}/crawler.db"
        upgrade(url)
        database = Database(url)
        gate = folder / GATE
        flows = [_pushed(database, manager, sets, title, gate) for title, manager, sets in given]
        if prepare is not None:
            for flow in flows:
                prepare(database, flow)
        (folder / "steps.json").write_text("\n".join(planned(flow)[1][0].model_dump_json() for flow in flows))
        process = started(folder, url)
        try:
            yield Hosted(folder, database, process, Crowd(process.pid))
        finally:
            process.kill()
            process.wait()
            database.close()


def _read(faked: Faked) -> int:
    with faked.database.engine.connect() as connection:
        return connection.scalar(select(managers.c.read_sets)) or 0


def started(folder: Path, url: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "bench.manager_host", url, str(folder / "steps.json")]
    with (folder / "host.log").open("ab") as log:
        return subprocess.Popen([*command, str(folder / "figures.json")], stdout=log, stderr=log)


def definition(manager: type, name: str, *arguments: str) -> FlowDefinition:
    work = StepWork(
        function=f"{manager.__module__}:{manager.__name__}", form=CallForm.MANAGER, arguments=list(arguments)
    )
    members = (MemberDefinition(path="manager", work=work),)
    return FlowDefinition(id=f"bench/{name}", name=name, family="bench", members=members)


def _pushed(database: Database, manager: type, sets: int, name: str = "faked", gate: Path | None = None) -> Flow:
    gates = ("--gate", str(gate)) if manager is manager_steps.Gated else ()
    given = definition(manager, name, "--sets", str(sets), "--max-running-jobs", str(AT_ONCE), *gates)
    store = SqlStore(database)
    answer = store.flow_doors.push(PushFlow(definition=given))
    return Flow(store, answer.flow_id, answer.flow_uid)


async def _one_by_one(_: Stack, control: Control, scale: Scale) -> Row:
    """Let a manager crawl in sequence, and measure from a run's end on record to the next start."""
    jobs = scale.managed_jobs
    given = definition(manager_steps.Repeating, "chain", "--sets", str(2 * jobs), "--max-running-jobs", "1")
    began = time.monotonic()
    await control.flows.push(PushFlow(definition=given, actor="bench"))
    await control.flows.wait(given.id)
    took = time.monotonic() - began
    runs = sorted(await asyncio.to_thread(control.runs.list, flow=given.id, limit=jobs), key=lambda run: run.run_id)
    assert len(runs) == jobs, runs
    ends = [run.finished_at.timestamp() for run in runs if run.finished_at is not None]
    client = await control.engine.client()
    shown = [control.runs.show(run.run_id).run.workflow_id for run in runs]
    starts = [(await client.get_workflow_handle(workflow).describe()).start_time.timestamp() for workflow in shown]
    delays = sorted(start - end for end, start in zip(ends[:-1], starts[1:], strict=True))
    worst = delays[int(0.95 * (len(delays) - 1))]
    result = (
        f"from an end on record to the next StartWorkflow: median {statistics.median(delays):.2f} s, p95 {worst:.2f} s"
    )
    return ("real crawls, one after the other", jobs, took, jobs / took, "-", "-", "-", "-", result)


async def _idle(stack: Stack, control: Control, scale: Scale) -> Row:
    """Measure all processes' CPU while graphs wait for a person, and managers for their authors."""
    for number in range(scale.idle_managers):
        await control.flows.push(PushFlow(definition=definition(manager_steps.Waiting, f"idle-{number}")))
    for _ in range(scale.idle_flows):
        await control.flows.push(PushFlow(definition=Workflow().add_approval("release").definition()))
    host = part_of(stack.plan.state, "flows")
    await _until(lambda: len(host.children()) >= scale.idle_managers)
    await asyncio.sleep(IDLE_SECONDS / 2)  # until the last of them wait
    parts = [part_of(stack.plan.state, name) for name in ("temporal", "lifecycle", "flows", "dispatcher", "watcher")]
    objects = host.children()
    before, began = _cpu([*parts, *objects]), time.monotonic()
    await asyncio.sleep(IDLE_SECONDS)
    cores = (_cpu([*parts, *objects]) - before) / (time.monotonic() - began)
    memory = [process.memory_info().rss / MIB for process in objects]
    result = f"{cores:.3g} cores in all"
    idle = f"waiting: {scale.idle_flows:,} graphs and {scale.idle_managers} managers"
    return (idle, scale.idle_managers, "-", "-", "-", "-", host.memory_info().rss / MIB, max(memory), result)


def _cpu(processes: Sequence[psutil.Process]) -> float:
    return sum(cpu_seconds(psutil.Process(process.pid)) for process in processes)


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(300):
        while not holds():
            await asyncio.sleep(LOOK)


FAKED: dict[str, Callable[[Scale], Row]] = {
    "undisturbed": _undisturbed,
    "no cursor": _without_cursor,
    "with cursor": _with_cursor,
    "ends at once": _ends_at_once,
    "many managers": _many_managers,
}
ON_A_STACK: dict[str, Played] = {"one after the other": _one_by_one, "waiting": _idle}
