"""Costs of a run of eight hours for Temporal and the worker.

The workflow is real, on a real server that skips the time between looks. A script answers the activities, so that the
figures belong to the engine alone.
"""

import asyncio
from collections.abc import Callable

import psutil
from temporalio.api.enums.v1 import EventType
from temporalio.testing import WorkflowEnvironment

from bench.measuring import cpu_seconds
from bench.table import Scale, Table
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.states import TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange
from tests.kit.temporal.plays import played
from tests.kit.temporal.script import Script
from tests.kit.temporal.servers import start_skipping

LOOKS_IN_EIGHT_HOURS = 36
PATIENCE = 60.0
OF_SKIPPED_TIME = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIME_SKIPPING_TRANSITIONED
CHANGE = TaskChange(task=0, attempt=1, version=1, status=TaskStatus.SUCCEEDED)

Changes = Callable[[int], list[TaskChange]]
SHAPES: dict[str, Changes] = {
    "nothing differs until the end": lambda look: [CHANGE] if look == LOOKS_IN_EIGHT_HOURS else [],
    "something differs at every look": lambda _: [CHANGE],
}


def measure(scale: Scale) -> Table:
    columns = ("eight hours in which", "looks", "history events", "server CPU s", "worker CPU s")
    return Table(columns, asyncio.run(_rows(max(1, scale.repeats // 2))))


async def _rows(repeats: int) -> list[tuple[object, ...]]:
    us = psutil.Process()
    before = set(us.children())
    async with await start_skipping() as environment:
        (server,) = set(us.children()) - before
        await _run(environment, lambda _: [])  # the first run loads modules and connections for all later runs
        rows: list[tuple[object, ...]] = []
        for what, changes in SHAPES.items():
            began = cpu_seconds(server), cpu_seconds(us)
            events = [await _run(environment, changes) for _ in range(repeats)]
            ended = cpu_seconds(server), cpu_seconds(us)
            cpu = [(after - before) / repeats for before, after in zip(began, ended, strict=True)]
            rows.append((what, LOOKS_IN_EIGHT_HOURS, max(events), *cpu))
    return rows


async def _run(environment: WorkflowEnvironment, changes: Changes) -> int:
    """Return how many events the history has, without the events for skipped time."""
    script = Script(alive=lambda look: int(look < LOOKS_IN_EIGHT_HOURS), changes=changes, search_attributes=True)
    async with played(environment, script) as stage, asyncio.timeout(PATIENCE):
        handle = await stage.start(RunRequest(crawler="books"))
        await handle.result()
        assert script.looks == LOOKS_IN_EIGHT_HOURS
        history = await handle.fetch_history()
    return sum(event.event_type != OF_SKIPPED_TIME for event in history.events)
