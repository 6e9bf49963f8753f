"""Random graphs on a real server, with a supervisor and a host: states, sub-workflows, results and contexts.

The model is a second statement of the rules, and shares nothing with the product. Each result is a digest of all values
in the function's context, so a context with a wrong value is noticed in the results.
"""

import asyncio
import hashlib
import json
import signal
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import func, select
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.flow_schema import flow_members
from crawler_lifecycle.errors import Conflict
from crawler_lifecycle.flows import Context, Workflow
from crawler_lifecycle.flows.model.records import FlowStatus
from crawler_lifecycle.flows.rules.messages import WriteFlow
from crawler_lifecycle.flows.rules.summary import status_of
from crawler_lifecycle.model.flow_states import MemberKind, MemberState
from crawler_lifecycle.testing.memory import NOW
from tests.flows.conftest import Service
from tests.kit.data.databases import copy_of
from tests.kit.data.flows import Flow
from tests.kit.temporal.flow_stage import FlowStage, flow_stage
from tests.process.step_hosts import StepHosts

GRAPHS = 40
DEEPEST = 3
ID = "random-"
COMPLETED, CANCELLED, DISCARDED = "completed", "cancelled", "discarded"
KILLED_GRAPHS = range(GRAPHS, GRAPHS + 8)
KILLS = 2  # a step whose process dies three times is discarded
ROOT = Path(__file__).parents[2]
NEVER = threading.Event()
pytestmark = pytest.mark.timeout(300)  # the graphs run at once, beside other tests
Gate = Callable[[bool, bool], bool]  # whether a job with these flags may start


@dataclass
class Node:
    kind: str
    name: str
    deps: list[str]
    ignores: tuple[bool, bool]  # cancelled, discarded dependencies
    fails: bool = False
    items: int = 0
    is_approved: bool = True
    is_early: bool = False
    level: list["Node"] = field(default_factory=list)


def level_of(random: Random, depth: int = 0) -> list[Node]:
    nodes: list[Node] = []
    for number in range(random.randint(0, 5) if depth else random.randint(10, 14)):
        kinds = ["step", "step", "approval", "approval", "fan"] + ["sub", "graft"] * (depth < DEEPEST)
        node = Node(
            random.choice(kinds),
            f"j{number}",
            random.sample([node.name for node in nodes[-2:]], min(len(nodes), random.choice([0, 1, 1, 1, 1, 2]))),
            (random.random() < 0.5, random.random() < 0.5),
            fails=random.random() < 0.3,
            items=random.choice([0, 0, 1, 2]),
            is_approved=random.random() < 0.9,
            is_early=random.random() < 0.7,
        )
        if node.kind in ("sub", "graft"):
            node.level = level_of(random, depth + 1)
        nodes.append(node)
    return nodes


# the functions


def digest(path: str, seen: Any) -> str:
    return hashlib.sha256(json.dumps([path, seen], sort_keys=True).encode()).hexdigest()[:12]


def plain(value: Any) -> Any:
    """Return the value as JSON. A decision is its answer."""
    if not isinstance(value, Mapping):
        return getattr(value, "approved", value)
    return value["approved"] if "approved" in value else {name: plain(value[name]) for name in value}


def note(context: Context) -> str:
    return digest(context.job.path, plain(context))


def fail(context: Context) -> str:
    raise ValueError(note(context))


def note_item(item: int, context: Context) -> str:
    return digest(context.job.path, plain(context))


def attach(context: Context) -> Workflow:
    seed = int(context.job.flow_id.removeprefix(ID))
    return built(grafts_in(level_of(Random(seed)))[context.job.path])


def built(level: list[Node], workflow: Workflow | None = None) -> Workflow:
    workflow = Workflow() if workflow is None else workflow
    for node in level:
        flags: Any = dict(zip(("ignore_cancelled", "ignore_discarded"), node.ignores, strict=True))
        if node.kind == "step":
            workflow.add_cascade(node.name, fail if node.fails else note, deps=node.deps, **flags)
        elif node.kind == "fan":
            workflow.add_cascade(node.name, (range(node.items), note_item), deps=node.deps, **flags)
        elif node.kind == "approval":
            workflow.add_approval(node.name, deps=node.deps)
        elif node.kind == "sub":
            workflow.add_workflow(node.name, built(node.level), deps=node.deps)
        else:
            workflow.add_graft(node.name, fail if node.fails else attach, deps=node.deps, **flags)
    return workflow


# the model


@dataclass
class Model:
    """The end of a graph: jobs' and sub-workflows' states by path, and results by path."""

    states: dict[str, str] = field(default_factory=dict)
    subs: dict[str, str] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)

    def play(
        self, level: list[Node], base: str, gate: Gate, around: dict[str, Any]
    ) -> tuple[list[str], dict[str, Any]]:
        """Return the states of a level's parts, and their values by name. `around`: what first jobs see."""
        states: dict[str, str] = {}
        values: dict[str, Any] = {}
        for node in level:
            own_gate, seen = gate, around
            if node.deps:
                own_gate = gate_behind([states[name] for name in node.deps])
                seen = {name: values[name] for name in node.deps}
            states[node.name], values[node.name] = self._part(node, f"{base}{node.name}", own_gate, seen, around)
        return list(states.values()), values

    def _part(self, node: Node, path: str, gate: Gate, seen: dict[str, Any], around: dict[str, Any]) -> tuple[str, Any]:
        if node.kind == "step":
            return self._job(path, gate(*node.ignores), node.fails, digest(path, seen))
        if node.kind == "approval":
            return self._job(path, gate(False, False) and node.is_approved, False, True)
        ignores = node.ignores if node.kind == "fan" else (False, False)
        if node.kind == "fan":
            paths = [f"{path}/{number}" for number in range(node.items)]
            ends = [self._job(item, gate(*ignores), False, digest(item, seen)) for item in paths]
            states, values = [state for state, _ in ends], {str(at): value for at, (_, value) in enumerate(ends)}
        elif node.kind == "sub":
            states, values = self.play(node.level, f"{path}/", gate, seen)
        else:
            state, _ = self._job(path, gate(*node.ignores), node.fails, None)
            if state != COMPLETED:
                return state, {}
            states, values = self.play(node.level, f"{path}/", lambda *_: True, around)
            states.append(state)
        end = worst(states or [COMPLETED if gate(*ignores) else CANCELLED])
        if node.kind != "graft" or node.level:  # an empty graft is not shown
            self.subs[path] = end
        return end, values

    def _job(self, path: str, may_start: bool, fails: bool, value: Any) -> tuple[str, Any]:
        self.states[path] = (DISCARDED if fails else COMPLETED) if may_start else CANCELLED
        if self.states[path] != COMPLETED:
            return self.states[path], None
        if value is not None:
            self.results[path] = value
        return COMPLETED, value


def gate_behind(states: list[str]) -> Gate:
    def gate(cancelled: bool, discarded: bool) -> bool:
        ignored = {COMPLETED} | ({CANCELLED} if cancelled else set()) | ({DISCARDED} if discarded else set())
        return ignored.issuperset(states)

    return gate


def worst(states: list[str]) -> str:
    return next((state for state in (DISCARDED, CANCELLED) if state in states), COMPLETED)


# the comparison


def approvals_in(level: list[Node], base: str = "") -> dict[str, Node]:
    known = {f"{base}{node.name}": node for node in level if node.kind == "approval"}
    for node in level:
        known |= approvals_in(node.level, f"{base}{node.name}/")
    return known


def shown_in(status: FlowStatus, base: str = "") -> dict[str, str]:
    shown = {f"{base}{name}": sub.state.value for name, sub in status.subs.items()}
    for name, sub in status.subs.items():
        shown |= shown_in(sub, f"{base}{name}/")
    return shown


def grafts_in(level: list[Node], base: str = "") -> dict[str, list[Node]]:
    known = {f"{base}{node.name}": node.level for node in level if node.kind == "graft"}
    for node in level:
        known |= grafts_in(node.level, f"{base}{node.name}/")
    return known


async def decide(flow: Flow, approvals: dict[str, Node], state: str | None = None) -> list[str]:
    """Decide about approvals: all of them, or those in the state. Return their paths."""
    states = await asyncio.to_thread(lambda: flow.states)
    chosen = [path for path in approvals if path in states and (state is None or states[path] == state)]
    for path in chosen:
        try:
            await asyncio.to_thread(flow.approve, path, approved=approvals[path].is_approved)
        except Conflict:  # a failed dependency was first
            continue
    return chosen


async def played(stage: FlowStage, seed: int) -> tuple[Model, Model]:
    """Return the end by the model, and the end of the flow."""
    level = level_of(Random(seed))
    model = Model()
    model.play(level, "", lambda *_: True, {})
    flow = await asyncio.to_thread(stage.push, built(level, Workflow(id=f"{ID}{seed}")))
    approvals = approvals_in(level)
    await decide(flow, {path: node for path, node in approvals.items() if node.is_early})
    await stage.nudge(flow)
    ending = asyncio.create_task(stage.supervisor(flow).result())
    while not ending.done():
        if await decide(flow, approvals, "available"):
            await stage.nudge(flow)
        await asyncio.wait({ending}, timeout=0.1)
    await ending
    kept = flow.ledger
    shown = shown_in(status_of(stage.store.flow_records.tallies(flow.id), NOW))
    results = stage.store.flow_records.results(flow.id, list(kept.members))
    by_path = {kept.members[number].path: plain(value) for number, value in results.items()}
    completed = {path: value for path, value in by_path.items() if flow.states[path] == COMPLETED}
    return model, Model(flow.states, shown, completed)


def delay_writes(stage: FlowStage) -> None:
    """Let each write of a supervisor take some time, as on a busy database: a start may overtake the write."""

    def delay(_: WriteFlow) -> None:
        stage.ledger.before["write"] = delay
        NEVER.wait(0.05)

    stage.ledger.before["write"] = delay


def assert_alike(ends: Iterable[tuple[int, tuple[Model, Model]]]) -> None:
    for seed, (model, flow) in ends:
        assert flow.states == model.states, f"seed {seed}"
        assert flow.results == model.results, f"seed {seed}"
        assert {path: flow.subs[path] for path in model.subs} == model.subs, f"seed {seed}"


@pytest.mark.long
async def test_random_graphs_end_as_the_model_says(service: Service) -> None:
    delay_writes(service.stage)
    async with asyncio.timeout(200):
        ends = await asyncio.gather(*(played(service.stage, seed) for seed in range(GRAPHS)))
    assert_alike(enumerate(ends))


async def kill_hosts(hosts: StepHosts, stage: FlowStage) -> None:
    """Kill the host with SIGKILL while it has steps, several times: a later host takes the steps over."""

    def tally() -> tuple[int, int]:
        with stage.database.read() as connection:
            steps = select(func.count()).where(flow_members.c.kind == MemberKind.STEP)
            in_flight = connection.scalar(steps.where(flow_members.c.in_flight)) or 0
            return in_flight, connection.scalar(steps.where(flow_members.c.state == MemberState.COMPLETED)) or 0

    in_flight = before = completed = 0
    for number in range(1, KILLS + 1):
        while len(hosts.processes) < number or not in_flight or completed <= before:
            await asyncio.sleep(0.05)
            in_flight, completed = await asyncio.to_thread(tally)
        hosts.processes[-1].kill()
        in_flight, before = 0, completed


@pytest.mark.system
async def test_random_graphs_end_alike_although_hosts_are_killed(
    real_time: WorkflowEnvironment, sqlite_template: Path, tmp_path: Path
) -> None:
    url = copy_of(sqlite_template, tmp_path)
    database = Database(url)

    async with flow_stage(real_time.client, database, hosted=False) as stage, asyncio.timeout(200):
        settings = {"PYTHONPATH": str(ROOT)}
        hosts = StepHosts(real_time.client, database, tmp_path, url, __name__, settings, stage.queue)
        async with hosts.kept_running():
            killing = asyncio.create_task(kill_hosts(hosts, stage))
            ends = await asyncio.gather(*(played(stage, seed) for seed in KILLED_GRAPHS))
            await killing
        await hosts.end_all()
    assert sum(host.returncode == -signal.SIGKILL for host in hosts.processes) > KILLS
    assert_alike(zip(KILLED_GRAPHS, ends, strict=True))
    await asyncio.to_thread(database.close)
