"""The version before is the one that is meant: its schema is the present one. A copy of the repository without its
history says what it misses, and passes nowhere where nothing may be skipped."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.manager_schema import managers
from crawler_lifecycle.database.schema import REVISION
from tests.upgrade import released as before

UPGRADE = "import sys; from crawler_lifecycle.database.migrate import upgrade; upgrade(sys.argv[1])"


@pytest.mark.skipif(REVISION != "0001", reason="an upgrade changes the schema of the version before")
def test_the_version_before_knows_the_first_schema(tmp_path: Path) -> None:
    """A change to the first schema has no revision of its own, so an upgrade would not bring it."""
    code, url = before.released(tmp_path / "released"), f"sqlite:///{tmp_path / 'crawler.db'}"
    subprocess.run(
        [sys.executable, "-P", "-c", UPGRADE, url], env=os.environ | {"PYTHONPATH": str(code)}, check=True, timeout=60
    )
    database = Database(url)
    with database.read() as connection:
        changes = compare_metadata(MigrationContext.configure(connection), managers.metadata)
    database.close()
    assert changes == [], "pin a later commit in tests/upgrade/released.py"


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_a_copy_without_the_released_commit(
    ci: str, outcome: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(before, "COMMIT", "0" * 40)
    with pytest.raises(outcome, match="does not have it: `git fetch --unshallow`"):
        before.released(tmp_path / "released")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(outcome, match="no program `git`"):
        before.released(tmp_path / "released")
    assert not (tmp_path / "released").exists()
