"""Graphs of steps, and helpers for tests of a flow's supervisor."""

import asyncio
from collections import Counter
from typing import Any

from temporalio.client import WorkflowHandle

from crawler_lifecycle.flows import Workflow
from tests.kit.authors.work import plain
from tests.kit.data.flows import Flow
from tests.kit.temporal.activity_events import begun_in
from tests.kit.waiting import eventually


def pair() -> Workflow:
    return Workflow().add("a", plain).add("b", plain, deps="a")


def diamond() -> Workflow:
    workflow = Workflow().add("top", plain).add("left", plain, deps="top").add("right", plain, deps="top")
    return workflow.add("bottom", plain, deps=["left", "right"])


def chain(length: int) -> Workflow:
    workflow = Workflow()
    for number in range(length):
        workflow.add(f"j{number}", plain, deps=[f"j{number - 1}"] if number else [])
    return workflow


async def door(request: Any, *inputs: Any, **fields: Any) -> None:
    await asyncio.to_thread(request, *inputs, **fields)


async def shown_as(flow: Flow, path: str, state: str) -> None:
    await eventually(lambda: flow.states.get(path) == state, f"{path} is {state}", seen=lambda: flow.states)


async def activities_of(supervisor: WorkflowHandle[Any, Any]) -> Counter[str]:
    """Count the supervisor's requests for each activity, but for those inside of workflow tasks."""
    activities = begun_in([event async for event in supervisor.fetch_history_events()])
    return Counter(activity.name for activity in activities if not activity.is_inside)
