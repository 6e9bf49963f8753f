"""A client on a SQLite database, with Temporal away, and the engine's hand for the flows on record."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.base.limits import LARGEST_RESULT
from crawler_lifecycle.client import Flows
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows.model.values import to_text
from crawler_lifecycle.model.flow_states import EndKind, MemberKind
from tests.kit.data.databases import copy_of
from tests.kit.data.flows import Flow

NOWHERE = "127.0.0.1:1"


class Hand(Flow):
    """The supervisor and the hosts of a flow on record, in the test's hand."""

    def play(self, results: dict[str, object] | None = None, fails: tuple[str, ...] = ()) -> None:
        """Bring the flow to its end. Steps end with these results; the steps in `fails` fail."""
        while self.go_on().starts or self.under_way():
            for path in self.under_way():
                kind = EndKind.FAILED if path in fails else EndKind.COMPLETED
                value = (results or {}).get(path)
                text = None if value is None else to_text("result", value, LARGEST_RESULT)
                self.end(self.last(path), kind=kind, reason="ValueError: no" if path in fails else None, result=text)

    def under_way(self) -> list[str]:
        rows = self.ledger.members.values()
        return [row.path for row in rows if row.in_flight and row.kind is MemberKind.STEP]


GetHand = Callable[[str], Hand]


@pytest.fixture
def database_url(sqlite_template: Path, tmp_path: Path) -> str:
    """One kind is enough here: the tests in `contracts` have both."""
    return copy_of(sqlite_template, tmp_path)


@pytest.fixture
def installed(database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The environment of an author's program. Return the state folder."""
    monkeypatch.setenv("CRAWLER_DATABASE__URL", database_url)
    monkeypatch.setenv("TEMPORAL_ADDRESS", NOWHERE)
    return tmp_path


@pytest_asyncio.fixture
async def flows(installed: Path) -> AsyncIterator[Flows]:
    flows = await Flows.connected(installed, "ann")
    yield flows
    await flows.close()


@pytest.fixture
def hand(database: Database) -> GetHand:
    store = SqlStore(database)
    return lambda flow: Hand(store, flow, store.flow_records.uid_of(flow))
