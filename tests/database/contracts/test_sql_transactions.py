"""A method that is one transaction is committed or rolled back as a whole, and called again after a deadlock."""

from collections.abc import Callable
from typing import assert_type

import pytest
from sqlalchemy import Connection, insert, select

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.failures import Contended
from crawler_lifecycle.database.schema import audits
from crawler_lifecycle.database.transactions import OnDatabase, reading, transaction
from crawler_lifecycle.errors import PermanentError


class Audits(OnDatabase):
    failures: list[Exception]

    @transaction
    def add(self, tx: Connection, uid: str, *, complete: bool = False) -> int:
        row = {"audit_uid": uid, "began_at": self._db.clock(), "complete": complete, "parts": "{}"}
        added = tx.execute(insert(audits).values(row)).rowcount
        if self.failures:
            raise self.failures.pop()
        return added

    @reading
    def uids(self, connection: Connection) -> list[str]:
        return list(connection.scalars(select(audits.c.audit_uid)))


@pytest.fixture
def kept(database: Database) -> Audits:
    kept = Audits(database)
    kept.failures = []
    return kept


def test_callers_see_the_method_without_its_connection(kept: Audits) -> None:
    uids: Callable[[], list[str]] = kept.uids
    assert_type(kept.add("one", complete=True), int)
    assert uids() == ["one"]


def test_a_transaction_that_raises_leaves_nothing(kept: Audits) -> None:
    kept.failures = [PermanentError("no")]
    with pytest.raises(PermanentError):
        kept.add("one")
    assert kept.uids() == []


def test_a_transaction_that_was_in_the_way_of_another_is_made_again(kept: Audits) -> None:
    kept.failures = [Contended("deadlock"), Contended("deadlock")]
    assert kept.add("one") == 1
    assert (kept.failures, kept.uids()) == ([], ["one"])
