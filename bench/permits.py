"""Permits on the embedded stack with real processes: a big run beside a small one, and many runs under a low limit.

The benchmark fails if a limit is exceeded, if a run does not complete, or if a small run waits longer than a minute.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence

from bench.embedded import planned_stack, start_runs
from bench.table import Scale, Table
from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.model.limits import LimitChange, LimitRecord
from crawler_lifecycle.model.requests import RunRequest, StopRequest
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from crawler_lifecycle.stack.stack import Stack

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
MOST_SECONDS_OF_A_SMALL_RUN = 60.0  # also beside a big run


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
        most = max(most, tasks_within_limit(_limit(control)))
        check_seconds(time.monotonic() - began)
        await asyncio.sleep(PAUSE)
    seconds = time.monotonic() - began
    check_seconds(seconds)
    handle = (await control.engine.client()).get_workflow_handle(run.workflow_id)
    check_completed([await control.engine.result(handle)])
    return seconds, most, _limit(control).tasks or 0


async def _beside_a_big_run(control: Control, scale: Scale) -> tuple[float, int, int]:
    control.limits.change(LimitChange(tasks=PLACES_BESIDE_A_BIG_RUN))
    big = await control.runs.start(RunRequest(crawler="long", tasks=scale.big_run))
    while tasks_within_limit(_limit(control)) < PLACES_BESIDE_A_BIG_RUN:
        await asyncio.sleep(PAUSE)
    figures = await _small_run(control)
    await control.runs.stop(big.run_id, StopRequest(actor="bench", force=True))
    async for _ in control.runs.watch(big.run_id):
        tasks_within_limit(_limit(control))
    return figures


async def _two_levels(control: Control, scale: Scale) -> tuple[float, int, int]:
    control.limits.change(LimitChange(tasks=scale.limit))
    began, most = time.monotonic(), 0
    handles = await start_runs(control, "two-level", scale.two_level_runs)
    waiting = asyncio.gather(*(control.engine.result(handle) for handle in handles))
    while not waiting.done():
        most = max(most, tasks_within_limit(_limit(control)))
        await asyncio.sleep(PAUSE)
    check_completed(await waiting)
    return time.monotonic() - began, most, scale.limit


def _limit(control: Control) -> LimitRecord:
    """Return the installation's limit with the present use."""
    return control.limits.all()[0]


def tasks_within_limit(record: LimitRecord) -> int:
    """Return the number of tasks in the cluster; raise AssertionError if the limit is exceeded."""
    if record.tasks is not None and record.tasks_in_cluster > record.tasks:
        raise AssertionError(f"the limit is exceeded: {record}")
    return record.tasks_in_cluster


def check_completed(outcomes: Sequence[Mapping[str, object]]) -> None:
    """Raise AssertionError unless every run has completed."""
    if wrong := [outcome for outcome in outcomes if outcome["status"] != RunStatus.COMPLETED]:
        raise AssertionError(f"{len(wrong)} of {len(outcomes)} runs have not completed, the first is {wrong[0]}")


def check_seconds(seconds: float) -> None:
    """Raise AssertionError if a small run takes too long."""
    if seconds > MOST_SECONDS_OF_A_SMALL_RUN:
        raise AssertionError(f"a run of two tasks has not succeeded after {MOST_SECONDS_OF_A_SMALL_RUN:.0f} seconds")
