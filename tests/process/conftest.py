"""One stack for all tests of a module: it takes some seconds to start."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.process.crawls import Site, clean_site
from tests.process.stops import CRAWLERS


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with clean_site(tmp_path_factory.mktemp("stack"), CRAWLERS) as running:
        yield running
