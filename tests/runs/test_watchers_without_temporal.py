"""With Temporal away each nudge was waited for in turn: the watcher stood still, was ended for that, and what it had
claimed was sent by nobody."""

import asyncio
import shutil
import socket
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from crawler_lifecycle.assembly.store import SqlClaims, SqlStore
from crawler_lifecycle.database import pages
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import NotReady, PermanentError, TemporaryError
from crawler_lifecycle.model.supervision import Nudge
from crawler_lifecycle.runs.processes import watcher as watching
from crawler_lifecycle.runs.processes.watcher import Watcher
from crawler_lifecycle.temporal import connection
from tests.kit.data.databases import MakeRun
from tests.kit.waiting import eventually

pytestmark = pytest.mark.regression(
    "With Temporal away the watcher waited for each nudge in turn, and nobody sent what it had claimed"
)

AWAY = TemporaryError("Temporal does not answer")


@pytest.fixture
def database_url(tmp_path: Path, sqlite_template: Path) -> str:
    """One kind is enough: nothing here is about SQL."""
    return f"sqlite:///{shutil.copyfile(sqlite_template, tmp_path / 'crawler.db')}"


class Changed:
    """A cluster that tells these once."""

    def __init__(self, *run_uids: str) -> None:
        self.run_uids = set(run_uids)

    def changes(self) -> Iterator[set[str]]:
        yield self.run_uids
        while True:
            time.sleep(0.01)
            yield set()


class Forgetful(SqlClaims):
    """Its database is away after the first claim, once."""

    away = True

    def open_among(self, run_uids: Iterable[str]) -> set[str]:
        if self.away:
            self.away = False
            raise TemporaryError("the database is away")
        return super().open_among(run_uids)


class Temporal:
    def __init__(self) -> None:
        self.sent: list[int] = []
        self.answers = asyncio.Event()
        self.silent: set[int] = set()
        self.refused: set[int] = set()

    async def send(self, nudge: Nudge) -> None:
        if nudge.run_id in self.silent:
            await self.answers.wait()
            self.silent.discard(nudge.run_id)
            raise AWAY
        if nudge.run_id in self.refused:
            self.refused.discard(nudge.run_id)
            raise PermanentError("not so")
        self.sent.append(nudge.run_id)


@asynccontextmanager
async def running(watcher: Watcher, *connect: Any) -> AsyncIterator[None]:
    task = asyncio.create_task(watcher.run(*connect))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_nudge_that_waits_keeps_no_other_and_is_a_turn(database: Database, make_run: MakeRun) -> None:
    silent, refused, fine = (make_run() for _ in range(3))
    temporal = Temporal()
    temporal.silent, temporal.refused = {silent.run_id}, {refused.run_id}
    changed: Any = Changed(silent.run_uid, refused.run_uid, fine.run_uid)
    watcher = Watcher(SqlStore(database).claims, changed, temporal.send)
    async with running(watcher):
        await eventually(lambda: temporal.sent == [fine.run_id])
        assert watcher.pulses.turned.has_beaten_within(600), "in the middle of its first pass"
        assert not watcher.pulses.succeeded.has_beaten_within(600)
        temporal.answers.set()
        await eventually(lambda: sorted(temporal.sent) == [silent.run_id, refused.run_id, fine.run_id])


async def test_a_pass_that_reached_nobody_was_none(database: Database, make_run: MakeRun) -> None:
    run = make_run()

    async def away(_: Nudge) -> None:
        raise AWAY

    changed: Any = Changed(run.run_uid)
    watcher = Watcher(SqlStore(database).claims, changed, away)
    async with running(watcher):
        await eventually(lambda: watcher.pulses.succeeded.problem == AWAY.message)


async def test_what_is_claimed_when_the_database_goes_away_is_sent(database: Database, make_run: MakeRun) -> None:
    run, temporal = make_run(), Temporal()
    changed: Any = Changed(run.run_uid)
    async with running(Watcher(Forgetful(database), changed, temporal.send)):
        await eventually(lambda: temporal.sent == [run.run_id])


def test_those_of_earlier_pages_are_told(
    database: Database, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, transact, calls = [make_run() for _ in range(3)], database.transact, list[object]()

    def once(change: Any) -> Any:
        calls.append(change)
        if len(calls) == 2:
            raise TemporaryError("the database is away")
        return transact(change)

    monkeypatch.setattr(pages, "ROWS_IN_A_PAGE", 1)
    monkeypatch.setattr(database, "transact", once)
    nudges, uids = SqlStore(database).claims, [run.run_uid for run in runs]
    first, rest = nudges.claim_nudges(uids), nudges.claim_nudges(uids)
    assert len(first) == 1
    assert sorted(nudge.run_uid for nudge in first + rest) == sorted(uids)


async def test_nothing_is_claimed_before_temporal_was_there(
    database: Database, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "CONNECT_PAUSE", 0.01)
    run, temporal, tries = make_run(), Temporal(), list[int]()

    async def connect() -> None:
        tries.append(len(tries))
        if len(tries) < 3:
            assert SqlStore(database).claims.open_among([run.run_uid])
            raise AWAY

    changed: Any = Changed(run.run_uid)
    watcher = Watcher(SqlStore(database).claims, changed, temporal.send)
    async with running(watcher, connect):
        await eventually(lambda: temporal.sent == [run.run_id])
    assert len(tries) == 3


async def test_a_configuration_that_cannot_be_read_is_told_at_once(database: Database) -> None:
    async def connect() -> None:
        raise NotReady("Temporal's own configuration cannot be read")

    changed: Any = Changed()
    with pytest.raises(NotReady):
        await Watcher(SqlStore(database).claims, changed, Temporal().send).run(connect)


async def test_connecting_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(TemporaryError, match=address):
            await connection.TemporalConnection(
                {"TEMPORAL_ADDRESS": address, "TEMPORAL_CONFIG_FILE": "/dev/null"}, "any"
            ).client()
