"""How is a run looked at sooner than its looks are due? Its jobs change, and the watcher tells; or a test does."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import httpx

from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.records import RunDetails
from tests.kubernetes.client import Answer
from tests.kubernetes.service import Service

SETTLED = 240.0  # the longest pause of a deployment that failed, and the look after it


async def until(
    service: Service,
    run: Started,
    holds: Callable[[RunDetails], bool],
    *,
    touching: bool = True,
    patience: float = SETTLED,
) -> RunDetails:
    """`touching`: its jobs change all the time, so that the watcher has it looked at."""
    deadline = time.monotonic() + patience
    while not holds(details := service.details(run)):
        assert time.monotonic() < deadline, details.run
        if touching:
            touch(service, run)
        await asyncio.sleep(0.5)
    return details


async def until_seen(
    service: Service, run: Started, holds: Callable[[RunDetails], bool], patience: float = SETTLED
) -> RunDetails:
    """It is looked at again and again, also while the watcher cannot know of anything."""
    deadline = time.monotonic() + patience
    while not holds(details := service.details(run)):
        assert time.monotonic() < deadline, details.run
        assert not details.run.status.is_over, details.run
        await service.nudge(run)
        await asyncio.sleep(0.5)
    return details


def touch(service: Service, run: Started) -> None:
    """Each of its jobs changes a little."""
    change: dict[str, Any] = {"metadata": {"annotations": {"touched": str(time.time_ns())}}}
    for path in service.paths("jobs", run):
        try:
            service.bed.admin.merge(path, change)
        except Answer as answer:
            if answer.status != httpx.codes.NOT_FOUND:  # it may have left just now
                raise
