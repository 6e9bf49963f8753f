"""Duration from a stop to its proof.

On the embedded stack, with real processes that end as soon as they are asked: only the service is measured.
"""

import asyncio
import time
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.embedded import refuse_trouble
from bench.table import Scale, Table
from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.model.records import RunDetails
from crawler_lifecycle.model.requests import RunRequest, StopRequest
from crawler_lifecycle.model.states import StopPhase, TaskStatus
from crawler_lifecycle.stack.plan import Ports, make_plan
from crawler_lifecycle.stack.stack import Stack, owned

CATALOGUE = '[crawlers.sleeper]\ncommand = ["sleep", "3600"]\ngrace_seconds = 600\n'
PATIENCE = 900.0
LOOK_PAUSE = 0.5
PHASES = (StopPhase.QUEUED_CANCELLED, StopPhase.JOBS_ASKED, StopPhase.PROVED)


def measure(scale: Scale) -> Table:
    columns = ("tasks", "s until all run", "s until the queue is clear", "s until all are asked", "s until the proof")
    with TemporaryDirectory(prefix="bench-stop-", ignore_cleanup_errors=True) as folder:
        state, catalogue = Path(folder).resolve() / "state", Path(folder) / "catalogue.toml"
        catalogue.write_text(CATALOGUE)
        with owned(state):
            plan = make_plan(state, Ports.free(), catalogue)
            most = str(2 * max(scale.stopped))  # a place for every job, so that no queue for places is measured
            plan.environment["CRAWLER_CLUSTER__CAPACITY"] = most
            plan.environment["CRAWLER_LIMITS__TASKS_IN_CLUSTER"] = most
            stack = Stack(plan, refuse_trouble, temporary=True)
            return Table(columns, asyncio.run(_rows(stack, scale.stopped)))


async def _rows(stack: Stack, sizes: tuple[int, ...]) -> list[tuple[object, ...]]:
    async with stack.running() as control, asyncio.timeout(PATIENCE):
        await _stopped(control, 1)  # the first stop loads modules and connections for all later stops
        return [await _stopped(control, tasks) for tasks in sizes]


async def _stopped(control: Control, tasks: int) -> tuple[object, ...]:
    began = time.monotonic()
    run = await control.runs.start(RunRequest(crawler="sleeper", tasks=tasks))
    while control.runs.show(run.run_id).run.tasks != {TaskStatus.RUNNING: tasks}:
        await asyncio.sleep(LOOK_PAUSE)
    running = time.monotonic() - began
    await control.runs.stop(run.run_id, StopRequest(actor="bench"))
    over = [details async for details in control.runs.watch(run.run_id)][-1]
    assert {task.status for task in over.tasks} == {TaskStatus.STOPPED}
    requested_at = _at(over, "stop")
    return tasks, running, *((_at(over, phase) - requested_at).total_seconds() for phase in PHASES)


def _at(details: RunDetails, event: str) -> datetime:
    return next(line.at for line in details.log if line.event == event)
