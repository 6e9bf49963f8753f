from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import Client, WorkflowHandle
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Interceptor, Worker

from crawler_lifecycle.assembly.plugin import by_queue
from crawler_lifecycle.model.naming import archive_queue
from tests.kit.temporal.script import Script


@dataclass
class Stage:
    """A worker that plays a script."""

    client: Client
    task_queue: str

    async def start(self, request: Any = None, **options: Any) -> WorkflowHandle[Any, Any]:
        return await self.client.start_workflow(
            "CrawlerLifecycleWorkflow",
            args=[] if request is None else [request],
            id=f"test-{uuid4()}",
            task_queue=self.task_queue,
            **options,
        )


Play = Callable[[Script], AbstractAsyncContextManager[Stage]]


async def skipped_until(
    skipping: WorkflowEnvironment, handle: WorkflowHandle[Any, Any], reached: Callable[[], bool]
) -> None:
    """Let the workflow's clock run ahead, a second at a time, until the condition holds."""
    while not reached():
        await skipping.fast_forward(handle, timedelta(seconds=1))


@asynccontextmanager
async def played(environment: WorkflowEnvironment, script: Script, *between: Interceptor) -> AsyncIterator[Stage]:
    queue = f"queue-{uuid4()}"
    async with working(environment.client, queue, script.activities(), interceptors=between):
        yield Stage(environment.client, queue)


@asynccontextmanager
async def working(
    client: Client, queue: str, activities: Sequence[Callable[..., Any]], **options: Any
) -> AsyncIterator[None]:
    """A worker, with the one beside it that makes archives."""
    general, archiving = by_queue(activities)
    async with (
        Worker(client, task_queue=queue, activities=general, **options),
        Worker(client, task_queue=archive_queue(queue), activities=archiving, **options),
    ):
        yield


@pytest.fixture
def play(skipping: WorkflowEnvironment) -> Play:
    return lambda script: played(skipping, script)
