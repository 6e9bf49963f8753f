"""A stack for all tests of a module, since its start takes some seconds; and a folder for a test's own stacks."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.process.crawls import Site, clean_site, end_all_of
from tests.process.stops import CRAWLERS


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with clean_site(tmp_path_factory.mktemp("stack"), CRAWLERS) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for stacks; a failed test leaves no process in the folder."""
    yield tmp_path
    end_all_of(tmp_path)
