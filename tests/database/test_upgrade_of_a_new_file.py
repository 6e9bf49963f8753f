import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.migrate import check, upgrade

pytestmark = pytest.mark.regression(
    "Two upgrades of a database file that is just being made: one of them found it locked and gave up"
)


def test_a_file_that_somebody_else_sets_up_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "crawler.db"
    refusals = 0
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        def end_the_other(_: float) -> None:
            nonlocal refusals
            refusals += 1
            other.rollback()

        monkeypatch.setattr("crawler_lifecycle.database.database.time.sleep", end_the_other)
        upgrade(f"sqlite:///{path}")
    assert refusals
    upgraded = Database(f"sqlite:///{path}")
    check(upgraded)
    upgraded.close()
