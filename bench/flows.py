"""Graphs of steps that do nothing, on the embedded stack, from the push until the end is known.

The floor is a bare workflow with as many no-op activities in the graph's shape, on the same server, in turn with the
graphs. Further rows have graphs with ten thousand steps or dependencies, and a thousand graphs waiting for a person.
"""

import asyncio
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isqrt

from bench import flow_steps
from bench.databases import AS_INSTALLED
from bench.embedded import all_cpu, part_of, planned_stack
from bench.floor.bare import Step
from bench.floor.rounds import Floor, floor
from bench.table import Scale, Table
from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.model.requests import PushFlow
from crawler_lifecycle.model.flow_states import FlowState
from crawler_lifecycle.model.naming import flow_workflow_id
from crawler_lifecycle.stack.plan import StepModules
from crawler_lifecycle.stack.stack import Stack
from tests.kit.data.databases import create_database, mariadb_is_installed, running_mariadb

CATALOGUE = '[crawlers.nothing]\ncommand = ["true"]\n'
PATIENCE = 900.0
IDLE_SECONDS = 60.0
MIB = 1024 * 1024
COLUMNS = ("database", "graph", "steps", "s", "s at most", "floor, s", "times the floor", "events", "worker, MiB")
Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """A graph, and the bare workflow in its shape."""

    name: str
    make: Callable[[], Workflow]
    bare: tuple[Step, ...]

    @property
    def steps(self) -> int:
        return sum(step.activities for step in self.bare)


def measure(scale: Scale) -> Table:
    rows = _rows("SQLite", {}, scale)
    if mariadb_is_installed():
        with running_mariadb(*AS_INSTALLED) as port:
            rows += _rows("MariaDB", {"CRAWLER_DATABASE__URL": create_database(port, "bench")}, scale)
    return Table(COLUMNS, rows)


def shapes(scale: Scale) -> list[Shape]:
    return [
        Shape("diamond", diamond, (Step(1), Step(2), Step(1))),
        Shape("chain", lambda: _chain(scale.chain), (Step(1),) * scale.chain),
        Shape("fan-out and fan-in", lambda: _fan(scale.fan), (Step(1), Step(scale.fan), Step(1))),
    ]


def large_shapes(scale: Scale) -> list[Shape]:
    fan, width = scale.large_flow - 2, isqrt(scale.large_flow)
    return [
        Shape("fan-out and fan-in", lambda: _fan(fan), (Step(1), Step(fan), Step(1))),
        Shape("chain", lambda: _chain(scale.large_flow), (Step(scale.large_flow),)),
        Shape(f"network of {width**2:,} dependencies", lambda: _network(width), (Step(width), Step(width))),
    ]


def _rows(database: str, settings: Mapping[str, str], scale: Scale) -> list[Row]:
    with planned_stack(CATALOGUE, settings, StepModules((flow_steps.__name__,))) as stack:
        return asyncio.run(_measure(stack, database, scale))


async def _measure(stack: Stack, database: str, scale: Scale) -> list[Row]:
    async with (
        stack.running() as control,
        asyncio.timeout(PATIENCE),
        floor(stack.plan.environment, part_of(stack.plan.state, "temporal")) as bare,
    ):
        await _seconds(control, diamond())  # loads modules and connections for all later graphs
        rows = [
            await _compared(stack, control, bare, shape, database, scale.rounds_of_flows) for shape in shapes(scale)
        ]
        rows += [await _alone(stack, control, database, shape) for shape in large_shapes(scale)]
        rows.append(await _idle(stack, control, database, scale.idle_flows))
    return rows


async def _compared(stack: Stack, control: Control, bare: Floor, shape: Shape, database: str, rounds: int) -> Row:
    """Measure graph and floor in turn, so that a busy moment affects both."""
    ours, floors = [], []
    events = 0
    for _ in range(rounds):
        seconds, events = await _seconds(control, shape.make())
        ours.append(seconds)
        floors.append((await bare.round(shape.bare, 1)).seconds)
    median, lowest = statistics.median(ours), statistics.median(floors)
    figures = median, max(ours), lowest, median / lowest, events, worker_mib(stack)
    return (database, shape.name, shape.steps, *figures)


async def _alone(stack: Stack, control: Control, database: str, shape: Shape) -> Row:
    """Measure a graph once, without a floor."""
    seconds, events = await _seconds(control, shape.make())
    return (database, shape.name, shape.steps, seconds, seconds, "-", "-", events, worker_mib(stack))


async def _idle(stack: Stack, control: Control, database: str, flows: int) -> Row:
    """Push graphs that wait for a person, and measure the CPU of all processes meanwhile."""
    for _ in range(flows):
        await push(control, Workflow().add_approval("release").add("end", flow_steps.nothing, deps="release"))
    await asyncio.sleep(IDLE_SECONDS / 4)  # until the last of them wait
    before, began = all_cpu(stack.plan.state), time.monotonic()
    await asyncio.sleep(IDLE_SECONDS)
    cores = (all_cpu(stack.plan.state) - before) / (time.monotonic() - began)
    return (database, f"waiting for a person: {cores:.3g} cores", flows, "-", "-", "-", "-", "-", worker_mib(stack))


async def _seconds(control: Control, workflow: Workflow) -> tuple[float, int]:
    """Return the seconds from the push until the end is known, and the events of the last execution."""
    began = time.monotonic()
    uid = await push(control, workflow)
    row = await control.flows.wait(workflow.id)
    seconds = time.monotonic() - began
    assert row.state is FlowState.COMPLETED, row
    return seconds, await last_events(control, uid)


async def last_events(control: Control, uid: str) -> int:
    """Return the events of the last execution of the flow's workflow."""
    description = await (await control.engine.client()).get_workflow_handle(flow_workflow_id(uid)).describe()
    return description.history_length or 0


async def push(control: Control, workflow: Workflow) -> str:
    answer = await control.flows.push(PushFlow(definition=workflow.definition(), actor="bench"))
    assert answer.nudged, answer.problem
    return answer.flow_uid


def diamond() -> Workflow:
    step = flow_steps.nothing
    return (
        Workflow()
        .add("start", step)
        .add("left", step, deps="start")
        .add("right", step, deps="start")
        .add("end", step, deps=["left", "right"])
    )


def _chain(length: int) -> Workflow:
    workflow = Workflow()
    for number in range(length):
        workflow.add(f"step_{number}", flow_steps.nothing, deps=f"step_{number - 1}" if number else None)
    return workflow


def _network(width: int) -> Workflow:
    """Return two layers: the steps in the second layer depend on all steps in the first layer."""
    workflow, first = Workflow(), [f"first_{number}" for number in range(width)]
    workflow.add_group([(name, flow_steps.nothing) for name in first])
    return workflow.add_group([(f"second_{number}", flow_steps.nothing) for number in range(width)], first)


def _fan(items: int) -> Workflow:
    return (
        Workflow()
        .add("start", flow_steps.nothing)
        .add_cascade("fan", (list(range(items)), flow_steps.nothing_with), deps="start")
        .add("end", flow_steps.nothing, deps="fan")
    )


def worker_mib(stack: Stack) -> float:
    return part_of(stack.plan.state, "lifecycle").memory_info().rss / MIB
