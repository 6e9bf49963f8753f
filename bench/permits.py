"""Permits on the embedded stack with real processes: a big run beside a small one, and many runs under a low limit."""

import asyncio
import time

from bench.embedded import planned_stack, start_runs
from bench.table import Scale, Table
from crawler_lifecycle.contract.limits import LimitChange
from crawler_lifecycle.contract.requests import RunRequest, StopRequest
from crawler_lifecycle.contract.states import TaskStatus
from crawler_lifecycle.control.control import Control
from crawler_lifecycle.services.embedded.stack import Stack

# the main job of a two-level run waits until its child task has left a file
TWO_LEVELS = "while [ ! -e $CRAWL_FILES/done ]; do sleep 0.5; done"
CATALOGUE = f"""
[crawlers.long]
command = ["sleep", "10"]
[crawlers.short]
command = ["true"]
[crawlers.two-level]
processes = 2
command = ["/bin/sh", "-c", "if [ $CRAWL_TASK = 1 ]; then touch $CRAWL_FILES/done; else {TWO_LEVELS}; fi"]
"""
PATIENCE = 1_800.0
PLACES_BESIDE_A_BIG_RUN = 20
PAUSE = 0.25


def measure(scale: Scale) -> Table:
    most = max(scale.limit, PLACES_BESIDE_A_BIG_RUN)  # processes at a time, so that only the limits hold tasks back
    with planned_stack(CATALOGUE, {"CRAWLER_CLUSTER__CAPACITY": str(most)}) as stack:
        rows = asyncio.run(_rows(stack, scale))
    return Table(("", "seconds", "most tasks in the cluster", "limit"), rows)


async def _rows(stack: Stack, scale: Scale) -> list[tuple[object, ...]]:
    async with stack.running() as control, asyncio.timeout(PATIENCE):
        await (await start_runs(control, "short", 1))[0].result()  # loads modules and connections for all later runs
        return [
            ("a run of two tasks, alone", *await _small_run(control)),
            (f"a run of two tasks, beside {scale.big_run:,} tasks", *await _beside_a_big_run(control, scale)),
            (f"{scale.two_level_runs} two-level runs, until all are over", *await _two_levels(control, scale)),
        ]


async def _small_run(control: Control) -> tuple[float, int, int]:
    """Return the seconds until both tasks have succeeded."""
    began = time.monotonic()
    run = await control.runs.start(RunRequest(crawler="short", tasks=2))
    most = 0
    while control.runs.show(run.run_id).run.tasks != {TaskStatus.SUCCEEDED: 2}:
        most = max(most, _in_cluster(control))
        await asyncio.sleep(PAUSE)
    return time.monotonic() - began, most, control.limits.all()[0].tasks or 0


async def _beside_a_big_run(control: Control, scale: Scale) -> tuple[float, int, int]:
    control.limits.change(LimitChange(tasks=PLACES_BESIDE_A_BIG_RUN), "bench")
    big = await control.runs.start(RunRequest(crawler="long", tasks=scale.big_run))
    while _in_cluster(control) < PLACES_BESIDE_A_BIG_RUN:
        await asyncio.sleep(PAUSE)
    figures = await _small_run(control)
    await control.runs.stop(big.run_id, StopRequest(actor="bench", force=True))
    async for _ in control.runs.watch(big.run_id):
        pass
    return figures


async def _two_levels(control: Control, scale: Scale) -> tuple[float, int, int]:
    control.limits.change(LimitChange(tasks=scale.limit), "bench")
    began, most = time.monotonic(), 0
    handles = await start_runs(control, "two-level", scale.two_level_runs)
    waiting = asyncio.gather(*(control.engine.result(handle) for handle in handles))
    while not waiting.done():
        most = max(most, _in_cluster(control))
        await asyncio.sleep(PAUSE)
    assert {outcome["status"] for outcome in await waiting} == {"COMPLETED"}
    return time.monotonic() - began, most, scale.limit


def _in_cluster(control: Control) -> int:
    return control.limits.all()[0].tasks_in_cluster
