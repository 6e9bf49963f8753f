"""Many graphs at once, and a graph of many crawls under a limit of the installation.

The stack is the embedded one, with jobs that end as soon as they are made. The benchmark fails if a job of a graph is
started twice or not at all, or if the limit is exceeded.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from bench import flow_steps
from bench.embedded import planned_stack
from bench.faked_part import faked_jobs
from bench.flows import diamond, last_events, push, worker_mib
from bench.permits import tasks_within_limit
from bench.table import Scale, Table
from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.model.flow_states import FlowState, MemberState
from crawler_lifecycle.model.limits import LimitChange
from crawler_lifecycle.model.records import RunFilter
from crawler_lifecycle.model.states import ListedStatus
from crawler_lifecycle.stack.plan import StepModules
from crawler_lifecycle.stack.stack import Stack

CATALOGUE = '[crawlers.nothing]\ncommand = ["true"]\n'
PATIENCE = 7_200.0
PAUSE = 0.5
PUSHES_AT_ONCE = 20
OPEN = [state for state in FlowState if not (state.is_final or state is FlowState.UNKNOWN)]
COLUMNS = ("", "jobs", "s", "jobs/s", "most tasks in the cluster", "limit", "events", "worker, MiB")
Row = tuple[object, ...]


def measure(scale: Scale) -> Table:
    rows = []
    with _stack(scale) as stack:
        rows.append(asyncio.run(_flows_at_once(stack, scale.flows_at_once)))
    with _stack(scale) as stack:
        rows.append(asyncio.run(_crawls_under_a_limit(stack, scale)))
    return Table(COLUMNS, rows)


@contextmanager
def _stack(scale: Scale) -> Iterator[Stack]:
    settings = {"CRAWLER_CLUSTER__CAPACITY": str(2 * scale.limit)}  # so that only the limit holds tasks back
    with planned_stack(CATALOGUE, settings, StepModules((flow_steps.__name__,))) as stack, faked_jobs():
        yield stack


async def _flows_at_once(stack: Stack, flows: int) -> Row:
    async with stack.running() as control, asyncio.timeout(PATIENCE):
        await push(control, diamond())  # loads modules and connections
        graphs, turn = [diamond() for _ in range(flows)], asyncio.Semaphore(PUSHES_AT_ONCE)

        async def push_in_turn(graph: Workflow) -> None:
            async with turn:
                await push(control, graph)

        began = time.monotonic()
        await asyncio.gather(*(push_in_turn(graph) for graph in graphs))
        await _all_ended(control)
        seconds, jobs = time.monotonic() - began, flows * 4
        for graph in graphs:
            _check_jobs(control, graph, 4)
        return ("graphs of four steps, at once", jobs, seconds, jobs / seconds, "-", "-", "-", worker_mib(stack))


async def _crawls_under_a_limit(stack: Stack, scale: Scale) -> Row:
    crawls, most = scale.crawls_of_a_flow, 0
    async with stack.running() as control, asyncio.timeout(PATIENCE):
        control.limits.change(LimitChange(tasks=scale.limit))
        graph = Workflow()
        for number in range(crawls):
            graph.add(f"crawl_{number}", crawl("nothing"))
        began = time.monotonic()
        uid = await push(control, graph)
        ending = asyncio.create_task(_all_ended(control))
        while not ending.done():
            most = max(most, tasks_within_limit((await asyncio.to_thread(control.limits.all))[0]))
            await asyncio.sleep(PAUSE)
        await ending
        seconds = time.monotonic() - began
        _check_jobs(control, graph, crawls)
        runs = control.runs.counts(RunFilter(flow=uid))
        assert dict(runs) == {ListedStatus.COMPLETED: crawls}, runs
        events = await last_events(control, uid)
        figures = crawls, seconds, crawls / seconds, most, scale.limit, events, worker_mib(stack)
        return ("crawls of a graph, under a limit", *figures)


async def _all_ended(control: Control) -> None:
    """Wait until no flow is open. A thousand waits for single flows would be a load."""
    while await asyncio.to_thread(control.flows.list, limit=1, states=OPEN):
        await asyncio.sleep(PAUSE)


def _check_jobs(control: Control, graph: Workflow, jobs: int) -> None:
    """Raise AssertionError unless all jobs have completed at their first attempt."""
    ends = Counter((job.state, job.attempt) for job in control.flows.members(graph.id))
    assert ends == {(MemberState.COMPLETED, 1): jobs}, ends
