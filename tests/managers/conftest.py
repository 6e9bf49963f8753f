"""Managers are played on SQLite: tests/contracts show that the ledger is the same on MariaDB."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from crawler_lifecycle.adapters.sql.database import Database
from tests.databases import copy_of


@pytest.fixture
def database(sqlite_template: Path, tmp_path: Path) -> Iterator[Database]:
    database = Database(copy_of(sqlite_template, tmp_path))
    yield database
    database.close()
