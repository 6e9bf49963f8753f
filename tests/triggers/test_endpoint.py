"""`POST /v1/events`: what an event starts or stops, once, and what is refused. Temporal is away."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.http.tokens import Scope
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.runs.commands.runs import workflow_id_of
from crawler_lifecycle.runs.ports import NewRun
from tests.kit.clusters.schedulers import TOKEN, SmallCluster, a_catalogue
from tests.kit.clusters.schedulers import served as scheduler_served
from tests.kit.data.databases import MakeRun, copy_of
from tests.kit.service.apis import Api, problem, served

RULES = """
[rules.order]
pattern.detail-type = ["Order Placed"]
start_run = { crawler = "bookshop", arguments = { order = "$.detail.order" } }
[rules.unwanted]
pattern.detail-type = ["Unwanted"]
stop_run = { run = "$.detail.run", reason = "{$.source} asked" }
[rules.batch]
pattern.detail-type = ["Batch"]
start_flow.members = [{ path = "decide", work = { kind = "approval", note = "{$.detail.note}" } }]
[rules.shops]
pattern.detail-type = ["Nightly"]
start_manager = { manager = "shops", arguments = ["--region", "$.detail.region"] }
[rules.delivery]
pattern.detail-type = ["Delivery"]
[[rules.delivery.start_flow.members]]
path = "shops"
work = { kind = "manager", manager = "shops", arguments = ["--region", "{$.detail.region}"] }
[[rules.delivery.start_flow.members]]
path = "deliver"
work = { kind = "step", function = "m:deliver" }
needs = [{ on = ["shops"] }]
[rules.unknown]
pattern.detail-type = ["Unknown Manager"]
start_manager = { manager = "nobody" }
"""


@pytest.fixture
def database_url(sqlite_template: Path, tmp_path: Path) -> str:
    """One kind is enough here: the tests in `contracts` have both."""
    return copy_of(sqlite_template, tmp_path)


@pytest.fixture
def mapping(tmp_path: Path) -> Path:
    path = tmp_path / "events.toml"
    path.write_text(RULES)
    return path


@pytest.fixture
def api(database_url: str, tmp_path: Path, mapping: Path) -> Iterator[Api]:
    with scheduler_served(SmallCluster(), a_catalogue(tmp_path)) as url:
        scheduler = {"CRAWLER_SCHEDULER__URL": url, "CRAWLER_SCHEDULER__TOKEN": TOKEN}
        with served(tmp_path, database_url, CRAWLER_TRIGGERS__MAPPING=str(mapping), **scheduler) as api:
            yield api


@pytest.fixture
def http(api: Api) -> Iterator[httpx.Client]:
    with api.client(token=api.tokens.make("ann", (Scope.OPERATE,))) as client:
        yield client


def post(http: httpx.Client, kind: str, event: str | None = None, **detail: Any) -> httpx.Response:
    body = {"id": event or str(uuid4()), "source": "shop", "detail-type": kind, "detail": detail, "version": "0"}
    return http.post("/v1/events", json=body)


@pytest.mark.long
def test_a_flow_starts_once_for_its_event(http: httpx.Client, database: Database) -> None:
    first, second = post(http, "Batch", "b-1", note="now?"), post(http, "Batch", "b-1", note="now?")
    assert (first.status_code, second.status_code) == (201, 200)
    answer = first.json()
    assert (answer["act"], answer["rule"], answer["created"], answer["flow_id"]) == (
        "start_flow",
        "batch",
        True,
        "shop:b-1",
    )
    assert second.json() == answer | {"created": False}
    assert post(http, "Batch", "b-2", note="now?").json()["flow_id"] == "shop:b-2"
    flows = SqlStore(database).flow_records.page(limit=10)
    assert [(flow.id, flow.created_by) for flow in flows] == [
        ("shop:b-2", "rule batch (token ann)"),
        ("shop:b-1", "rule batch (token ann)"),
    ]


def test_a_manager_starts_once_for_its_event(http: httpx.Client) -> None:
    answers = [post(http, "Nightly", "n-1", region=7) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 200], answers[0].text
    assert {answer.json()["flow_id"] for answer in answers} == {"shop:n-1/shops"}


def test_a_graph_with_a_manager_starts_once_for_its_event(http: httpx.Client, database: Database) -> None:
    answers = [post(http, "Delivery", "d-1", region=7) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 200], answers[0].text
    (manager,) = SqlStore(database).manager_doors.statuses("shop:d-1")
    assert (manager.path, manager.arguments) == ("shops", ("--own", "3", "--region", "7"))


def test_an_event_whose_run_exists_starts_nothing_whatever_the_mapping_says_now(
    http: httpx.Client, database: Database, mapping: Path
) -> None:
    store = SqlStore(database)
    workflow_id = workflow_id_of("", store.records.installation(), "event:shop:o-1")
    request = RunRequest(crawler="bookshop", arguments={"order": "1"})
    run = store.runs.create(
        NewRun(request, Crawler(name="bookshop", command=["true"]), 1, workflow_id, first_execution_run_id=str(uuid4()))
    )
    mapping.write_text(RULES.replace("Order Placed", "Order Paid"))
    answer = post(http, "Order Placed", "o-1", order=1)
    assert answer.status_code == 200, answer.text
    assert answer.json() == {
        "act": "start_run",
        "rule": None,
        "created": False,
        "run_id": run.run_id,
        "run_uid": run.run_uid,
        "flow_id": None,
    }
    assert "no rule fits" in problem(post(http, "Order Placed", "o-2", order=1), 422, "event").detail


def test_a_run_is_stopped_in_the_name_of_the_rule(http: httpx.Client, database: Database, make_run: MakeRun) -> None:
    run = make_run()
    answer = post(http, "Unwanted", run=run.run_id)
    assert (answer.status_code, answer.json()["created"], answer.json()["run_id"]) == (201, True, run.run_id)
    log = SqlStore(database).records.details(run.run_id).log
    assert [(line.actor, line.door, "shop asked" in (line.message or "")) for line in log if line.actor] == [
        ("rule unwanted (token ann)", "api", True)
    ]
    assert "4711" in problem(post(http, "Unwanted", run=4711), 422, "rules.unwanted").detail


def test_what_cannot_succeed_is_refused_with_its_place(http: httpx.Client) -> None:
    problem(post(http, "Unwanted"), 422, "rules.unwanted.stop_run.run")
    problem(post(http, "Unwanted", run=[1]), 422)
    problem(post(http, "Unknown Manager"), 422)
    problem(post(http, "Batch", note="x" * 2000), 422)
    problem(post(http, "Batch", "has a blank"), 422, "id")
    problem(http.post("/v1/events", json={"id": "x", "source": "y", "detail": {}}), 422, "detail-type")


def test_what_may_succeed_later_may_be_repeated(http: httpx.Client, mapping: Path) -> None:
    problem(post(http, "Order Placed", order=1), 503)  # Temporal is away
    mapping.write_text("[rules.x]\npattern.id = ['a']\nstart_run.crawler = 5\nstop_run.run = 5")
    answer = post(http, "Batch", "late", note="now?")
    assert "rules.x.act" in problem(answer, 503).detail
    assert "Retry-After" in answer.headers
    mapping.write_text(RULES)
    assert post(http, "Batch", "late", note="now?").status_code == 201


@pytest.mark.long
def test_an_api_without_a_mapping_takes_no_events(tmp_path: Path, database_url: str) -> None:
    with served(tmp_path, database_url) as api, api.client() as http:
        assert "CRAWLER_TRIGGERS__MAPPING" in problem(post(http, "Batch"), 503).detail
        with api.client(Scope.READ) as reader:
            problem(post(reader, "Batch"), 403)
