"""Delay between a task's end and its row in the database.

On the embedded stack, with real processes that end one by one: from the time in a job's exit record to the reading of
the task's final row. Once with the watcher, and once with a stopped watcher, when only looks notice the end.
"""

import asyncio
import os
import signal
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.embedded import refuse_trouble
from bench.table import Scale, Table
from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.states import TaskStatus
from crawler_lifecycle.settings import stack_file
from crawler_lifecycle.stack.plan import Ports, make_plan
from crawler_lifecycle.stack.stack import Stack, owned

PATIENCE = 600.0
LOOK_PAUSE = 0.02
BETWEEN_ENDS = 2.0  # seconds; all ends fall into the first minute, before the run's first look

CATALOGUE = '''
[crawlers.gated]
command = ["/bin/sh", "-c", """
gate="$GATES/$CRAWL_RUN_ID.$CRAWL_TASK"
until [ -p "$gate" ]; do sleep 0.2; done
read -r _ < "$gate"
"""]
environment = {{ GATES = "{gates}" }}
'''


def measure(scale: Scale) -> Table:
    with TemporaryDirectory(prefix="bench-noticed-", ignore_cleanup_errors=True) as folder:
        state, gates, catalogue = (Path(folder).resolve() / name for name in ("state", "gates", "catalogue.toml"))
        gates.mkdir()
        catalogue.write_text(CATALOGUE.format(gates=gates))
        with owned(state):
            plan = make_plan(state, Ports.free(), catalogue)
            plan.environment["CRAWLER_CLUSTER__CAPACITY"] = str(scale.noticed)
            stack = Stack(plan, refuse_trouble, temporary=True)
            rows = asyncio.run(_rows(stack, gates, scale.noticed))
    return Table(("", "tasks", "median s", "longest s"), rows)


async def _rows(stack: Stack, gates: Path, tasks: int) -> list[tuple[object, ...]]:
    async with stack.running() as control, asyncio.timeout(PATIENCE):
        rows: list[tuple[object, ...]] = []
        for name, watching in (("with the watcher", nullcontext()), ("looks alone", _still(stack, "watcher"))):
            run = await _all_run(control, gates, tasks)
            with watching:
                delays = await _noticed(control, run, gates, tasks)
            rows.append((name, tasks, statistics.median(delays), max(delays)))
            async for _ in control.runs.watch(run.run_id):
                pass
    return rows


async def _all_run(control: Control, gates: Path, tasks: int) -> Started:
    run = await control.runs.start(RunRequest(crawler="gated", tasks=tasks))
    for task in range(tasks):
        os.mkfifo(gates / f"{run.run_id}.{task}")
    while control.runs.show(run.run_id).run.tasks != {TaskStatus.RUNNING: tasks}:
        await asyncio.sleep(0.5)
    return run


async def _noticed(control: Control, run: Started, gates: Path, tasks: int) -> list[float]:
    ending = asyncio.create_task(_end_one_by_one(run, gates, tasks))
    noticed: dict[int, float] = {}
    while len(noticed) < tasks:
        details, now = control.runs.show(run.run_id), time.time()
        ended = {row.task: row.finished_at for row in details.tasks if row.status.is_over}
        noticed |= {task: now - at.timestamp() for task, at in ended.items() if at is not None and task not in noticed}
        await asyncio.sleep(LOOK_PAUSE)
    await ending
    return list(noticed.values())


async def _end_one_by_one(run: Started, gates: Path, tasks: int) -> None:
    for task in range(tasks):
        (gates / f"{run.run_id}.{task}").write_text("\n")
        await asyncio.sleep(BETWEEN_ENDS)


@contextmanager
def _still(stack: Stack, part: str) -> Iterator[None]:
    recorded = stack_file.read(stack.plan.state)
    assert recorded
    pid = next(process.pid for process in recorded.processes if process.name == part)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
