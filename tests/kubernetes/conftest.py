from collections.abc import AsyncIterator

import pytest_asyncio
from temporalio.testing import WorkflowEnvironment

from tests.kit.temporal.servers import start_real_time


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def real_time() -> AsyncIterator[WorkflowEnvironment]:
    """Start one for all modules, because some modules share the service `faulty`."""
    async with await start_real_time() as environment:
        yield environment
