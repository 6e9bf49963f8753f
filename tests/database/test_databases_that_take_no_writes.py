import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import REGISTRY

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.assembly.process import needs_of
from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database import database as sql_database
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.failures import Contended
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.runs.commands import runs as run_commands
from crawler_lifecycle.settings.installation import Installation
from tests.kit.data.databases import copy_of

pytestmark = pytest.mark.regression(
    "With the database locked, doctor said ok, no process logged a line, and a start blamed a missing worker"
)

NO_WRITES = "the database takes no writes"


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_database, "HURRIED_LOCK_SECONDS", 1)


@contextmanager
def without_writes(database: Database, url: str) -> Iterator[None]:
    """The whole server takes no writes, as during a backup; an SQLite file is locked by another process."""
    other = Database(url)
    try:
        if url.startswith("sqlite"):
            with other.transaction():
                yield
        else:
            with other.read() as connection:
                connection.exec_driver_sql("FLUSH TABLES WITH READ LOCK")
                try:
                    yield
                finally:
                    connection.exec_driver_sql("UNLOCK TABLES")
    finally:
        other.close()


def test_a_write_is_tested_within_seconds(database: Database, database_url: str) -> None:
    records = SqlStore(database).records
    records.check_write()
    with without_writes(database, database_url):
        assert records.installation(), "reads do go on"
        with pytest.raises(TemporaryError, match=NO_WRITES):
            records.check_write()
    records.check_write()


def test_a_wait_for_a_lock_is_counted_and_logged(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sql_database, "SLOW_SECONDS", 0.5)
    caplog.set_level(logging.WARNING)
    with without_writes(database, database_url), pytest.raises(TemporaryError):
        SqlStore(database).records.check_write()
    (line,) = [record.getMessage() for record in caplog.records if "for a statement" in record.getMessage()]
    assert ("BEGIN IMMEDIATE" if database_url.startswith("sqlite") else "UPDATE installation") in line


@pytest.mark.parametrize(("in_the_way", "given_up"), [(2, 0), (99, 1)])
def test_repeated_and_given_up_transactions_are_counted(
    database: Database, in_the_way: int, given_up: int, caplog: pytest.LogCaptureFixture
) -> None:
    before, tries = {outcome: _contended(outcome) for outcome in ("repeated", "given_up")}, iter(range(100))
    caplog.set_level(logging.INFO)

    def work(_: object) -> None:
        if next(tries) < in_the_way:
            raise Contended("somebody else")

    if given_up:
        with pytest.raises(TemporaryError):
            database.transact(work)
    else:
        database.transact(work)
    assert _contended("given_up") - before["given_up"] == given_up
    assert _contended("repeated") - before["repeated"] == min(in_the_way, sql_database.TRIES - 1)
    assert "somebody else" in caplog.text


def _contended(outcome: str) -> float:
    return REGISTRY.get_sample_value("crawler_database_contended_total", {"outcome": outcome}) or 0.0


@pytest.mark.long
async def test_doctor_and_readiness_name_the_database(sqlite_template: Path, tmp_path: Path) -> None:
    url = copy_of(sqlite_template, tmp_path)
    control = Control(Installation.with_variables(tmp_path, {"CRAWLER_DATABASE__URL": url}))
    with without_writes(control.parts.database, url):
        check = next(check for check in await control.doctor() if check.part == "database")
        assert not check.ok
        assert NO_WRITES in check.line
        with pytest.raises(TemporaryError, match=NO_WRITES):
            await needs_of(control.parts)["database"]()
        await needs_of(control.parts, writes=False)["database"]()
    await needs_of(control.parts)["database"]()


async def test_a_start_in_vain_names_the_database(
    sqlite_template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = copy_of(sqlite_template, tmp_path)
    control = Control(Installation.with_variables(tmp_path, {"CRAWLER_DATABASE__URL": url}))
    monkeypatch.setattr(run_commands, "WORKER_PATIENCE", 0.3)

    async def never(*_: Any) -> None:
        await asyncio.Event().wait()

    async def client() -> Any:
        return SimpleNamespace(get_workflow_handle=lambda *_, **__: SimpleNamespace(id="crawl-1"))

    monkeypatch.setattr(control.runs._engine, "client", client)
    monkeypatch.setattr(control.runs._engine, "result", never)
    with without_writes(control.parts.database, url), pytest.raises(TemporaryError, match=NO_WRITES) as failure:
        await control.runs.wait_started("crawl-1", "1")
    assert "worker asks" not in failure.value.message
