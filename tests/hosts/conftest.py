"""Fixtures for tests of the host."""

from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from crawler_lifecycle.database.database import Database
from tests.hosts import authors
from tests.hosts.stages import Stage
from tests.hosts.stages import staged as staged_with
from tests.hosts.supervised import Hosted, hosted
from tests.kit.data.databases import copy_of


@pytest.fixture
def flows_database(sqlite_template: Path, tmp_path: Path) -> Iterator[Database]:
    database = Database(copy_of(sqlite_template, tmp_path))
    yield database
    database.close()


@pytest_asyncio.fixture(loop_scope="session")
async def host(flows_database: Database) -> AsyncIterator[Hosted]:
    authors.reset()
    async with hosted(flows_database) as running:
        yield running
    authors.gate.set()


@pytest.fixture
def staged(flows_database: Database, tmp_path: Path) -> Callable[..., Stage]:
    """SQLite alone: tests/managers/contracts show that the ledger is the same on MariaDB."""
    return partial(staged_with, flows_database, tmp_path)
