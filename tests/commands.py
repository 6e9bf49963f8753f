"""`crawlctl` in this process, on a state folder of its own."""

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from crawler_lifecycle.adapters.sql.database import Database
from crawler_lifecycle.adapters.sql.store import SqlStore
from crawler_lifecycle.cli.program import main
from crawler_lifecycle.contract.deployment import Crawler
from crawler_lifecycle.contract.records import RunRecord
from crawler_lifecycle.contract.requests import RunRequest
from crawler_lifecycle.ports import NewRun

SECRET = "s3cr3t-of-the-bookshop"
Crawlctl = Callable[..., Result]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder that is not there yet, and an environment that says nothing."""
    for name in os.environ:
        if name.startswith(("CRAWLER_", "TEMPORAL_")):
            monkeypatch.delenv(name)
    return tmp_path / "state"


@pytest.fixture
def crawlctl(state: Path) -> Crawlctl:
    return lambda *words: CliRunner().invoke(main, [*words, "--state", str(state)])


@pytest.fixture
def state_url(state: Path) -> str:
    return f"sqlite:///{state / 'crawler.db'}"


@pytest.fixture
def run(state_url: str, crawlctl: Crawlctl) -> RunRecord:
    """A run of three tasks in a new database."""
    assert crawlctl("db", "upgrade").exit_code == 0
    request = RunRequest(crawler="bookshop", tasks=3, arguments={"site": "here"}, requested_by="Ada")
    entry = Crawler(name="bookshop", command=["true"], environment={"TOKEN": SECRET})
    new = NewRun(request, entry, 3, "crawl-bookshop-1", str(uuid.uuid4()))
    database = Database(state_url, pool_size=2)
    try:
        return SqlStore(database).runs.create(new)
    finally:
        database.close()


@pytest.fixture
def stored_in(crawlctl: Crawlctl, state_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """The database of `crawlctl`, new. Temporal is away."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    assert crawlctl("db", "upgrade").exit_code == 0
    database = Database(state_url, pool_size=2)
    yield database
    database.close()


@pytest.fixture
def stored(stored_in: Database) -> SqlStore:
    """The records in the database of `crawlctl`, for flows by hand. Temporal is away."""
    return SqlStore(stored_in)
