"""The fixture for old runs."""

import pytest

from crawler_lifecycle.database.database import Database
from tests.kit.data.databases import MakeRun
from tests.retention.old_runs import Old, old_runs


@pytest.fixture
def old(database: Database, make_run: MakeRun) -> Old:
    return old_runs(database, make_run)
