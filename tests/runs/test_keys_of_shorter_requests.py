"""A start with a key that was used before was taken for the same request although it left out what that had said: who
asked for a run of all the crawler's own tasks got one of two tasks, and no word of it."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.requests import AcceptedRequest
from crawler_lifecycle.runs.commands.runs import workflow_id_of
from crawler_lifecycle.runs.ports import NewRun
from crawler_lifecycle.runs.rules.plan import RunLimits, planned
from tests.kit.data.databases import copy_of
from tests.kit.service.apis import Api, problem

pytestmark = pytest.mark.regression(
    "A start with a used key was taken for the same request although it left out parts of that request"
)

KEY = "order-4711"
ENTRY = Crawler(name="books", processes=4, grace_seconds=20)


@pytest.fixture
def database_url(sqlite_template: Path, tmp_path: Path) -> str:
    return copy_of(sqlite_template, tmp_path)


def start(api: Api, **said: Any) -> httpx.Response:
    with api.client() as http:
        return http.post("/v1/runs", json={"crawler": "books", **said}, headers={"Idempotency-Key": KEY})


def made(database: Database, **said: Any) -> None:
    histories = SqlStore(database).runs
    request = planned(AcceptedRequest(crawler="books", **said), ENTRY, RunLimits())
    workflow_id = workflow_id_of("books", SqlStore(database).records.installation(), KEY)
    histories.create(NewRun(request, ENTRY, request.tasks or 1, workflow_id, str(uuid4())))


@pytest.mark.parametrize("said", [{"tasks": 2}, {"grace_seconds": 9}, {"max_parallel": 1, "max_duration_seconds": 60}])
def test_what_the_first_one_said_must_be_said_again(api: Api, database: Database, said: dict[str, Any]) -> None:
    made(database, **said)
    assert start(api, **said).status_code == 200
    told = problem(start(api), 409, "Idempotency-Key")
    assert all(name in told.detail for name in said)


def test_what_the_first_one_left_open_may_be_left_open_again(api: Api, database: Database) -> None:
    made(database)
    assert start(api).status_code == 200
    assert start(api, tasks=4, requested_by="ann").status_code == 200, "it is the same run that is asked for"
    problem(start(api, tasks=5), 409, "Idempotency-Key")
