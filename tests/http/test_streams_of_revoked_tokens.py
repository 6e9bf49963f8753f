from collections.abc import Callable
from pathlib import Path

import pytest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.http.tokens import Scope
from tests.kit.data.databases import MakeRun, copy_of
from tests.kit.service.apis import Api, stream

pytestmark = pytest.mark.regression(
    "A token was looked at when its request began: who had a stream open read on for days after it was revoked"
)


@pytest.fixture
def database_url(sqlite_template: Path, tmp_path: Path) -> str:
    return copy_of(sqlite_template, tmp_path)


def revoked(api: Api) -> None:
    api.tokens.revoke("ann")


def made_anew(api: Api) -> None:
    api.tokens.revoke("ann")
    api.tokens.make("ann", [Scope.READ])


def narrowed(api: Api) -> None:
    api.tokens.path.write_text(api.tokens.path.read_text().replace('"read"', '"operate"'))


def damaged(api: Api) -> None:
    api.tokens.path.write_text("{")


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize("happens", [revoked, made_anew, narrowed, damaged])
@pytest.mark.long
def test_who_may_read_no_more_reads_no_more(api: Api, make_run: MakeRun, happens: Callable[[Api], None]) -> None:
    token = api.tokens.make("ann", [Scope.READ])
    with api.client(token=token) as http, stream(http, "/v1/changes") as events:
        assert next(events).kind == "ready"
        happens(api)
        make_run()
        assert next(events, None) is None


@pytest.mark.long
def test_others_read_on(api: Api, database: Database, make_run: MakeRun) -> None:
    api.token(Scope.READ)
    with api.client(token=api.tokens.make("ann", [Scope.READ])) as http, stream(http, "/v1/changes") as events:
        assert next(events).kind == "ready"
        api.tokens.revoke("token-0")
        run = make_run()
        assert next(events).data["run_id"] == run.run_id
