"""`crawlctl` in this process, on a state folder of its own with an API, as `crawlctl up` has it."""

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.cli.program import main
from crawler_lifecycle.console.common import is_direct
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.http.tokens import embedded_token
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.runs.ports import NewRun
from crawler_lifecycle.settings import stack_file
from tests.kit.data.databases import copy_of
from tests.kit.service.apis import Api, served

SECRET = "s3cr3t-of-the-bookshop"
Crawlctl = Callable[..., Result]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder that is not there yet, and an environment that says nothing."""
    for name in os.environ:
        if name.startswith(("CRAWLER_", "TEMPORAL_")):
            monkeypatch.delenv(name)
    return tmp_path / "state"


@contextmanager
def api_on(state: Path) -> Iterator[Api]:
    """Serve an API by the environment and the state folder, which has its address and token for `crawlctl`."""
    url = os.environ.get("CRAWLER_DATABASE__URL", f"sqlite:///{state / 'crawler.db'}")
    temporal = {name: value for name, value in os.environ.items() if name.startswith("TEMPORAL_")}
    with served(state, url, **temporal) as api:
        embedded_token(state, api.tokens)
        environment = {"CRAWLER_API__URL": api.url}
        stack_file.write(state, stack_file.StackFile(stack="test", environment=environment, web_ui=""))
        yield api
        stack_file.remove(state)


@pytest.fixture
def typed(state: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Crawlctl]:
    """Run `crawlctl` with the state folder in its environment.

    The first command that needs an API starts an API, once there is a database.
    """
    monkeypatch.setenv("CRAWLER_STATE", str(state))
    with ExitStack() as stack:

        def invoke(*words: str) -> Result:
            needs_api = "--direct" not in words and not is_direct(" ".join(words)) and (state / "crawler.db").exists()
            if needs_api and stack_file.read(state) is None:
                stack.enter_context(api_on(state))
            return CliRunner().invoke(main, words)

        yield invoke


@pytest.fixture
def crawlctl(state: Path, typed: Crawlctl, monkeypatch: pytest.MonkeyPatch) -> Crawlctl:
    """Run `crawlctl` with `--state` at the end of each command."""
    monkeypatch.delenv("CRAWLER_STATE")
    return lambda *words: typed(*words, "--state", str(state))


@pytest.fixture
def state_url(state: Path, sqlite_template: Path) -> str:
    """Make a database in the state folder."""
    state.mkdir(mode=0o700)
    return copy_of(sqlite_template, state)


@pytest.fixture
def run(state_url: str) -> RunRecord:
    """A run of three tasks in a new database."""
    request = RunRequest(crawler="bookshop", tasks=3, arguments={"site": "here"}, requested_by="Ada")
    entry = Crawler(name="bookshop", command=["true"], environment={"TOKEN": SECRET})
    new = NewRun(request, entry, 3, "crawl-bookshop-1", str(uuid.uuid4()))
    database = Database(state_url, pool_size=2)
    try:
        return SqlStore(database).runs.create(new)
    finally:
        database.close()


@pytest.fixture
def stored_in(state_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """The database of `crawlctl`, new. Temporal is away."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    database = Database(state_url, pool_size=2)
    yield database
    database.close()


@pytest.fixture
def stored(stored_in: Database) -> SqlStore:
    """The records in the database of `crawlctl`, for flows by hand. Temporal is away."""
    return SqlStore(stored_in)
