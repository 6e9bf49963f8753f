"""All of this folder runs only when asked for: `-m cluster`."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.testing import WorkflowEnvironment

from tests.servers import start_real_time

HERE = Path(__file__).parent


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def real_time() -> AsyncIterator[WorkflowEnvironment]:
    """Start one for all modules, because some modules share the service `faulty`."""
    async with await start_real_time() as environment:
        yield environment


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.cluster)
