"""Crawl managers by the HTTP API: starts by catalogue names, the ledger, and who may do what. Temporal is away."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from crawler_lifecycle.cli.program import main
from crawler_lifecycle.client import Api as HttpApi
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows.model.manager_records import OutputLine
from crawler_lifecycle.flows.model.requests import ItemFilter
from crawler_lifecycle.http.tokens import Scope
from crawler_lifecycle.model.manager_items import Verdict
from crawler_lifecycle.model.states import RunStatus
from tests.kit.clusters.schedulers import TOKEN, SmallCluster, a_catalogue
from tests.kit.clusters.schedulers import served as scheduler_served
from tests.kit.data.databases import copy_of
from tests.kit.data.managers import Managed, item, managed
from tests.kit.service.apis import Api, problem, served, stream

MANAGER = "/v1/flows/managers"


@pytest.fixture
def database_url(sqlite_template: Path, tmp_path: Path) -> str:
    """One kind is enough here: the tests in `contracts` have both."""
    return copy_of(sqlite_template, tmp_path)


@pytest.fixture
def api(database_url: str, tmp_path: Path) -> Iterator[Api]:
    with scheduler_served(SmallCluster(), a_catalogue(tmp_path)) as url:
        scheduler = {"CRAWLER_SCHEDULER__URL": url, "CRAWLER_SCHEDULER__TOKEN": TOKEN}
        with served(tmp_path, database_url, **scheduler) as api:
            yield api


@pytest.fixture
def http(api: Api) -> Iterator[httpx.Client]:
    with api.client(token=api.tokens.make("ann", tuple(Scope))) as client:
        yield client


@pytest.fixture
def ledger(database: Database) -> Managed:
    """Three items: the first failed, the second waits, the third runs."""
    flow = managed(database)
    flow.commit(item("a"), item("b"), item("c"))
    flow.ended_run(flow.started(1), RunStatus.FAILED)
    flow.react(flow.ended()[0], Verdict.BAD)
    flow.run_of(flow.started(3))
    return flow


def done(answer: httpx.Response, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()


def test_a_manager_of_the_catalogue_starts_once_in_its_family(http: httpx.Client) -> None:
    body = {"manager": "shops", "family": "november", "arguments": ["--deep"]}
    answer = http.post(MANAGER, json=body)
    started = done(answer, 201)
    assert (started["flow_id"], started["created"], started["nudged"]) == ("november/shops", True, False)
    assert answer.headers["location"] == "/v1/flows/november/shops"
    for path in ("november", "november/jobs", "november/managers"):
        assert "it is the family of 'november/shops'" in problem(http.get(f"/v1/flows/{path}"), 404).detail
    again = done(http.post(MANAGER, json=body))
    assert (again["created"], again["changed"]) == (False, False)
    assert "other arguments" in problem(http.post(MANAGER, json={**body, "arguments": []}), 409).detail
    (manager,) = done(http.get("/v1/flows/november/shops/managers"))["managers"]
    assert (manager["function"], manager["arguments"]) == ("m:Shops", ["--own", "3", "--deep"])
    view = done(http.get("/v1/flows/november/shops"))
    assert (view["flow"]["family"], view["flow"]["created_by"]) == ("november", "token ann")
    assert view["managers"] == [manager]
    new = done(http.post(MANAGER, json={"manager": "shops"}), 201)
    assert new["flow_id"] not in ("november/shops", "shops")


def test_the_flow_of_a_manager_is_shown_before_a_start(http: httpx.Client) -> None:
    body = {"manager": "shops", "family": "november", "arguments": ["--deep"]}
    definition = done(http.post(f"{MANAGER}/definition", json=body))
    work = definition["members"][0]["work"]
    assert (definition["id"], work["function"], work["arguments"]) == (
        "november/shops",
        "m:Shops",
        ["--own", "3", "--deep"],
    )
    assert done(http.get("/v1/flows"))["flows"] == []
    problem(http.post(f"{MANAGER}/definition", json={"manager": "other"}), 422, "manager")


def test_paths_and_classes_are_no_names(http: httpx.Client) -> None:
    for name in ("m:Shops", "../shops.py", "/etc/passwd"):
        assert "there is no crawl manager" in problem(http.post(MANAGER, json={"manager": name}), 422, "manager").detail
    work = {"kind": "step", "function": "m:Shops", "form": "manager", "arguments": []}
    definition = {"id": "x", "members": [{"path": "manager", "work": work}]}
    detail = problem(http.post("/v1/flows", json=definition), 422, "form").detail
    assert 'expected {"kind": "manager", "manager": "its name in the catalogue"}' in detail
    problem(http.post(MANAGER, json={"manager": "shops", "class": "m:Shops"}), 422, "class")
    problem(
        http.post(MANAGER, json={"manager": "shops", "family": "a", "arguments": ["--flow-id", "b"]}), 422, "family"
    )
    assert done(http.get("/v1/flows"))["flows"] == []


def a_graph(*, id: str = "nightly", **manager: Any) -> dict[str, Any]:  # noqa: A002 - the field's name
    named = {"path": "shops", "work": {"kind": "manager", "manager": "shops", **manager}}
    deliver = {"path": "deliver", "work": {"kind": "step", "function": "m:deliver"}, "needs": [{"on": ["shops"]}]}
    return {"id": id, "family": "north", "members": [named, deliver]}


def test_a_graph_names_managers_of_the_catalogue(http: httpx.Client) -> None:
    graph = a_graph(arguments=["--deep"])
    assert done(http.post("/v1/flows", json=graph), 201)["count"] == 2
    assert done(http.post("/v1/flows", json=graph))["changed"] is False
    (manager,) = done(http.get("/v1/flows/nightly/managers"))["managers"]
    assert (manager["path"], manager["function"]) == ("shops", "m:Shops")
    assert manager["arguments"] == ["--own", "3", "--deep"]
    jobs = done(http.get("/v1/flows/nightly/jobs"))["jobs"]
    assert [(job["path"], job["kind"], job["deps"]) for job in jobs] == [
        ("shops", "manager", []),
        ("deliver", "step", ["shops"]),
    ]
    more = {"key": "once", "fragment": {"members": [{"path": "south", "work": graph["members"][0]["work"]}]}}
    assert done(http.post("/v1/flows/nightly/append", json=more), 202)["count"] == 1
    assert len(done(http.get("/v1/flows/nightly/managers"))["managers"]) == 2


def test_a_graph_with_an_unusable_manager_is_refused(http: httpx.Client) -> None:
    answer = problem(http.post("/v1/flows", json=a_graph(manager="shop")), 422, "manager")
    assert "there is no crawl manager 'shop' in the catalogue; did you mean" in answer.detail
    problem(http.post("/v1/flows", json=a_graph(arguments=["--flow-id", "b"])), 422, "arguments")
    problem(http.post("/v1/flows", json=a_graph(**{"class": "m:Shops"})), 422)
    assert "arguments: expected a list" in problem(http.post("/v1/flows", json=a_graph(arguments="--deep")), 422).detail
    unknown = problem(http.post("/v1/flows", json=a_graph(kind="mangr")), 422).detail
    assert unknown == "members.0.work: expected 'kind' to be one of 'crawl', 'step', 'approval', 'manager'"
    graph = a_graph()
    graph["members"][0]["retry"] = {"max_attempts": 3}
    problem(http.post("/v1/flows", json=graph), 422, "retry")
    assert done(http.get("/v1/flows"))["flows"] == []


def test_crawlctl_pushes_a_graph_with_a_named_manager_over_the_api(api: Api, tmp_path: Path) -> None:
    file = tmp_path / "named.py"
    file.write_text(
        "from crawler_lifecycle.flows import Workflow\n"
        "from crawler_lifecycle.managers import manager\n"
        "def deliver(shops): pass\n"
        "workflow = Workflow('named', id='named').add('shops', manager('shops', '--deep'))\n"
        "workflow.add('deliver', deliver, 'shops')\n"
    )
    env = {"CRAWLER_REMOTE__TOKEN": api.token(*Scope), "CRAWLER_DATABASE__URL": None, "TEMPORAL_ADDRESS": None}

    def crawlctl(*words: str) -> Result:
        return CliRunner(env=env).invoke(main, ["flow", *words, "--api", api.url])

    pushed = crawlctl("push", str(file))
    assert pushed.exit_code == 0, pushed.output
    assert "m:Shops" in crawlctl("show", "named").stdout
    checked = CliRunner(env=env).invoke(main, ["flow", "check", str(file)])
    assert "2 jobs (1 manager, 1 step)" in checked.output, checked.output
    refused = CliRunner(env=env).invoke(main, ["flow", "run", str(file)])
    assert (refused.exit_code, "whose class this command does not host" in refused.output) == (2, True), refused.output


def test_the_ledger_has_pages_and_filters(http: httpx.Client, ledger: Managed) -> None:
    place = f"/v1/flows/{ledger.id}/items"
    first = done(http.get(place, params={"limit": 2}))
    assert ([entry["number"] for entry in first["items"]], first["next"]) == ([1, 2], 2)
    rest = done(http.get(place, params={"limit": 2, "after": first["next"]}))
    assert ([entry["number"] for entry in rest["items"]], rest["next"]) == ([3], None)
    failed = done(http.get(place, params={"state": "failed"}))["items"]
    assert [(entry["number"], entry["outcome"]) for entry in failed] == [(1, "failed")]
    several = done(http.get(place, params={"state": ["failed", "waiting"]}))["items"]
    assert [entry["number"] for entry in several] == [1, 2]
    numbered = done(http.get(place, params={"number": [1, 3, 9], "state": "running"}))["items"]
    assert [entry["number"] for entry in numbered] == [3]
    assert http.get(place, params={"number": [0]}).status_code == 422
    assert len(done(http.get(place, params={"outcome": "failed"}))["items"]) == 1
    assert done(http.get(place, params={"tag": "north"}))["items"] == []
    problem(http.get(place, params={"state": "executing"}), 422)
    why = done(http.get(f"/v1/flows/{ledger.id}/why-item", params={"item": 3}))
    assert why["because"][0]["path"].startswith("run ")
    problem(http.get(f"/v1/flows/{ledger.id}/why-item", params={"item": 9}), 404)
    flows = done(http.get("/v1/flows"))["flows"]
    assert flows[0]["items"] | {"has_problem": False} == {
        "total": 3, "completed": 0, "failed": 1, "cancelled": 0, "refused": 0, "repeated": 0, "failures": 1,
        "has_problem": False, "is_exhausted": False,
    }  # fmt: skip


def test_items_are_added_retried_and_cancelled(http: httpx.Client, ledger: Managed) -> None:
    place = f"/v1/flows/{ledger.id}"
    body = {"key": "more", "items": [{"spider": "books", "shop": "d", "tags": ["late"]}, {"spider": "books"}]}
    assert done(http.post(f"{place}/items", json=body), 202)["count"] == 2
    assert done(http.post(f"{place}/items", json=body), 202)["changed"] is False
    tagged = done(http.get(f"{place}/items", params={"tag": "late"}))["items"]
    assert [(entry["number"], entry["override"]["spider_args"]) for entry in tagged] == [(4, {"shop": "d"})]
    assert "name no spider" in problem(http.post(f"{place}/items", json={"key": "k", "items": [{}]}), 422).detail
    retried = done(http.post(f"{place}/retry-items", json={"arguments": {"depth": "3"}}), 202)
    assert retried["count"] == 1
    problem(http.post(f"{place}/retry-items", json={"numbers": [9]}), 404)
    assert done(http.post(f"{place}/cancel-items", json={"numbers": [4, 5]}), 202)["count"] == 2
    timeline = done(http.get(place))["timeline"]
    assert [(line["event"], line["actor"], line["door"]) for line in timeline[-3:]] == [
        ("items added", "token ann", "api"), ("items retried", "token ann", "api"),
        ("items cancelled", "token ann", "api"),
    ]  # fmt: skip


def test_an_item_with_any_number_is_asked_for(http: httpx.Client, ledger: Managed) -> None:
    place = f"/v1/flows/{ledger.id}/why-item"
    problem(http.get(place, params={"item": (1 << 31) - 1}), 404)
    for number in (0, 1 << 31):
        problem(http.get(place, params={"item": number}), 422)


def test_attempts_corrections_and_lines(http: httpx.Client, ledger: Managed) -> None:
    place = f"/v1/flows/{ledger.id}"
    body = {"numbers": [1], "arguments": {"depth": "3"}, "spider": "others"}
    assert done(http.post(f"{place}/retry-items", json=body), 202)["count"] == 1
    ledger.run_of(ledger.started(1))
    first, second = done(http.get(f"{place}/item-attempts", params={"item": 1}))["attempts"]
    assert (first["attempt"], first["crawler"], first["outcome"]) == (1, "books", "failed")
    assert (second["attempt"], second["crawler"], second["changed"]) == (2, "others", {"depth": "3"})
    problem(http.get(f"{place}/item-attempts", params={"item": 9}), 404)
    ledger.managers.keep_output(ledger.mine, [OutputLine(at=second["started_at"], text="hello")])
    (line,) = done(http.get(f"{place}/manager-log", params={"manager": "manager"}))["lines"]
    assert line["text"] == "hello"
    problem(http.get(f"{place}/manager-log", params={"manager": "absent"}), 422)


@pytest.mark.long
def test_a_client_asks_for_many_items_in_parts(api: Api, ledger: Managed) -> None:
    """The API takes 500 numbers in a request: `crawlctl --api ... flow jobs` with more was refused."""
    ledger.commit(*(item(f"n{number}") for number in range(600)), call="many")
    numbers = tuple(range(603, 0, -1))
    with HttpApi(api.url, api.token(*Scope)) as remote:
        listed = list(remote.flows.items(ledger.id, ItemFilter(numbers=(*numbers, 1, 9999)), page_size=200))
        assert [entry.number for entry in listed] == list(range(1, 604))
        behind = remote.flows.items(ledger.id, ItemFilter(numbers=numbers), after=499)
        assert [entry.number for entry in behind] == list(range(500, 604))
        assert [attempt.number for attempt in remote.flows.item_attempts(ledger.id, 1)] == [1]
        assert remote.flows.output(ledger.id) == []


def test_who_may_do_what(api: Api, ledger: Managed) -> None:
    place = f"/v1/flows/{ledger.id}"
    with api.client(Scope.READ) as reader:
        done(reader.get(f"{place}/items"))
        for path, body in ((MANAGER, {"manager": "shops"}), (f"{place}/items", {}), (f"{place}/retry-items", {})):
            problem(reader.post(path, json=body), 403)


def test_the_numbers_are_followed(http: httpx.Client, ledger: Managed) -> None:
    with stream(http, f"/v1/flows/{ledger.id}/changes") as events:
        first = next(events)
        (manager,) = first.data["managers"]
        assert (manager["counts"]["failed"], manager["counts"]["running"]) == (1, 1)
        ledger.commit(item("d"), call="second")
        while manager["counts"]["waiting"] != 2:
            (manager,) = next(events).data["managers"]
