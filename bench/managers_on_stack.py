"""Managers on the embedded stack: real crawls in sequence, and graphs and managers that wait."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence

import psutil

from bench import manager_steps
from bench.embedded import all_cpu, part_of, planned_stack
from bench.manager_hosts import Row, definition
from bench.measuring import cpu_seconds
from bench.table import Scale
from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.model.requests import PushFlow
from crawler_lifecycle.model.records import RunFilter
from crawler_lifecycle.stack.plan import StepModules
from crawler_lifecycle.stack.stack import Stack

CATALOGUE = '[crawlers.nothing]\ncommand = ["true"]\n'
MIB = 1024 * 1024
LOOK = 0.5
IDLE_SECONDS = 60.0
Played = Callable[[Stack, Control, Scale], Awaitable[Row]]


def on_a_stack(scale: Scale, plays: Sequence[Played]) -> list[Row]:
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


async def one_by_one(_: Stack, control: Control, scale: Scale) -> Row:
    """Let a manager crawl in sequence, and measure from the stored end of a run to the next start."""
    jobs = scale.managed_jobs
    given = definition(manager_steps.Repeating, "chain", "--sets", str(2 * jobs), "--max-running-jobs", "1")
    began = time.monotonic()
    await control.flows.push(PushFlow(definition=given, actor="bench"))
    await control.flows.wait(given.id)
    took = time.monotonic() - began
    runs = sorted(
        await asyncio.to_thread(control.runs.select, RunFilter(flow=given.id), limit=jobs), key=lambda run: run.run_id
    )
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


async def idle(stack: Stack, control: Control, scale: Scale) -> Row:
    """Measure all processes' CPU while graphs wait for a person, and managers for their authors."""
    for number in range(scale.idle_managers):
        await control.flows.push(PushFlow(definition=definition(manager_steps.Waiting, f"idle-{number}")))
    for _ in range(scale.idle_flows):
        await control.flows.push(PushFlow(definition=Workflow().add_approval("release").definition()))
    host = part_of(stack.plan.state, "flows")
    await _until(lambda: len(host.children()) >= scale.idle_managers)
    await asyncio.sleep(IDLE_SECONDS / 2)  # until the last of them wait
    state, objects = stack.plan.state, host.children()
    before, began = all_cpu(state) + _cpu(objects), time.monotonic()
    await asyncio.sleep(IDLE_SECONDS)
    cores = (all_cpu(state) + _cpu(objects) - before) / (time.monotonic() - began)
    memory = [process.memory_info().rss / MIB for process in objects]
    result = f"{cores:.3g} cores in all"
    what = f"waiting: {scale.idle_flows:,} graphs and {scale.idle_managers} managers"
    return (what, scale.idle_managers, "-", "-", "-", "-", host.memory_info().rss / MIB, max(memory), result)


def _cpu(processes: Sequence[psutil.Process]) -> float:
    return sum(cpu_seconds(psutil.Process(process.pid)) for process in processes)


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(300):
        while not holds():
            await asyncio.sleep(LOOK)
