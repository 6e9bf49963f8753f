"""Flows by the HTTP API: who may do what, what is refused, and what becomes of flows. Temporal is away."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.client.api import Api as Client
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.model.definition import A_CRAWL_AND_A_STEP
from crawler_lifecycle.flows.rules.interventions import COMPLETED
from crawler_lifecycle.flows.store import results as flow_results
from crawler_lifecycle.http.tokens import Scope
from tests.client.conftest import Hand
from tests.kit.data.databases import MakeRun, copy_of
from tests.kit.service.apis import Api, problem, stream

FLOW = "shop/one two"


@pytest.fixture
def database_url(sqlite_template: Path, tmp_path: Path) -> str:
    """One kind is enough here: the tests in `contracts` have both."""
    return copy_of(sqlite_template, tmp_path)


@pytest.fixture
def http(api: Api) -> Iterator[httpx.Client]:
    with api.client(token=api.tokens.make("ann", tuple(Scope))) as client:
        yield client


def a_step(path: str, *needs: str, **fields: Any) -> dict[str, Any]:
    work = {"kind": "step", "function": "tests.kit.authors.work:plain"}
    return {"path": path, "work": work, "needs": [{"on": [need]} for need in needs], **fields}


def a_crawl(path: str, *needs: str, **request: Any) -> dict[str, Any]:
    work = {"kind": "crawl", "request": {"crawler": "bookshop", **request}}
    return {"path": path, "work": work, "needs": [{"on": [need]} for need in needs]}


def definition(flow: str = FLOW, *members: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"id": flow, "members": list(members) or [a_step("a"), a_step("b", "a"), a_crawl("c", "b")], **fields}


def hand(database: Database, flow: str = FLOW) -> Hand:
    store = SqlStore(database)
    return Hand(store, flow, store.flow_records.uid_of(flow))


def done(answer: httpx.Response, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()


def test_half_of_a_surrogate_pair_in_a_result_is_shown_as_a_replacement(http: httpx.Client, database: Database) -> None:
    done(http.post("/v1/flows", json=definition("half", a_step("a"))), 201)
    hand(database, "half").play({"a": {"/data/caf\udce9.txt": "\ud800"}})
    assert done(http.get("/v1/flows/half/results"))["results"] == {"a": {"/data/caf\ufffd.txt": "\ufffd"}}


def test_082_a_flow_goes_around(http: httpx.Client, database: Database) -> None:
    answer = http.post("/v1/flows", json=definition(name="shop"))
    pushed = done(answer, 201)
    assert (pushed["created"], pushed["count"], pushed["nudged"]) == (True, 3, False)
    assert "Temporal does not answer" in pushed["problem"]
    place = answer.headers["location"]
    assert place == "/v1/flows/shop/one%20two"
    again = done(http.post("/v1/flows", json=definition(name="shop")))
    assert (again["created"], again["changed"], again["count"]) == (False, False, 0)
    view = done(http.get(place))
    assert (view["flow"]["id"], view["flow"]["created_by"], view["status"]["total"]) == (FLOW, "token ann", 3)
    assert [(line["event"], line["actor"], line["door"]) for line in view["timeline"]] == [
        ("pushed", "token ann", "api")
    ]
    jobs = done(http.get(f"{place}/jobs"))
    assert [(job["path"], job["state"], job["deps"]) for job in jobs["jobs"]] == [
        ("a", "available", []), ("b", "suspended", ["a"]), ("c", "suspended", ["b"]),
    ]  # fmt: skip
    assert (jobs["total"], jobs["next"]) == (3, None)
    assert done(http.get(f"{place}/why", params={"job": "c"}))["because"][0]["path"] == "b"
    whole = done(http.get(f"{place}/why"))
    assert (whole["state"], [inner["path"] for inner in whole["because"]]) == ("executing", ["a"])
    assert done(http.get(f"{place}/graph"))["graph"].startswith("flowchart TD\n")
    assert "classDef" not in done(http.get(f"{place}/graph", params={"states": "false"}))["graph"]
    assert 'digraph "shop"' in done(http.get(f"{place}/graph", params={"format": "states-dot"}))["graph"]
    assert done(http.post(f"{place}/cancel", json={"jobs": ["c"], "reason": "no"}), 202)["count"] == 1
    hand(database).play({"a": {"books": 3}})
    assert done(http.get(f"{place}/results"))["results"] == {"a": {"books": 3}}
    assert done(http.get(f"{place}/results", params={"job": "a"}))["results"] == {"a": {"books": 3}}
    assert [attempt["kind"] for attempt in done(http.get(f"{place}/attempts", params={"job": "a"}))["attempts"]] == [
        "completed"
    ]
    assert done(http.get(place))["status"]["state"] == "cancelled"
    left_out = done(http.post(f"{place}/retry", json={"jobs": ["a"]}), 202)["left_out"]
    assert left_out == [{"job": "a", "reason": f"is completed already: {COMPLETED}"}]
    assert done(http.post(f"{place}/cancel", json={"jobs": ["a"]}), 202)["left_out"] == [
        {"job": "a", "reason": "is completed already"}
    ]
    answer = done(http.post(f"{place}/retry"), 202)
    assert (answer["count"], answer["left_out"]) == (1, [])
    assert done(http.get(place))["flow"]["state"] == "executing"
    assert done(http.post(f"{place}/stop", json={"reason": "enough", "actor": "bob"}), 202)["count"] == 1
    assert done(http.get(place))["timeline"][-1]["actor"] == "bob (token ann)"


def test_a_flow_that_has_ended_is_neither_stopped_nor_cancelled_nor_held(
    http: httpx.Client, database: Database
) -> None:
    http.post("/v1/flows", json=definition("w", a_step("a")))
    hand(database, "w").play({"a": 1})
    for command, body in (
        ("cancel", {}),
        ("stop", {}),
        ("stop", {"force": True}),
        ("stop", {"way": "leave"}),
        ("stop", {"way": "drain"}),
        ("hold", {"hold": "pause"}),
    ):
        refusal = problem(http.post(f"/v1/flows/w/{command}", json=body), 409)
        assert (refusal.code, refusal.detail) == ("over", "flow 'w' is completed already"), command


def test_results_beyond_a_reading_are_read_job_by_job(
    api: Api, http: httpx.Client, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    http.post("/v1/flows", json=definition("large", a_step("a"), a_step("b")))
    hand(database, "large").play({"a": "x" * 50, "b": "y" * 50})
    monkeypatch.setattr(flow_results, "LARGEST_READING", 60)
    refusal = problem(http.get("/v1/flows/large/results"), 422, "job").detail
    assert "are read at once: name single jobs (`crawlctl flow results FLOW JOB`, over HTTP `?job=JOB`)" in refusal
    with Client(api.url, api.token(Scope.RESULTS, Scope.READ)) as client:
        with pytest.raises(BadInput, match="name single jobs"):
            client.flows.results("large")
        names = [job.path for job in client.flows.jobs("large")]
        assert [client.flows.results("large", name) for name in names] == [{"a": "x" * 50}, {"b": "y" * 50}]


@pytest.mark.long
def test_082_lists_have_pages_and_filters(http: httpx.Client, database: Database) -> None:
    for number in range(5):
        http.post("/v1/flows", json=definition(f"f{number}", family="x" if number % 2 else "y"))
    hand(database, "f1").play()
    first = done(http.get("/v1/flows", params={"limit": 3}))
    assert [flow["id"] for flow in first["flows"]] == ["f4", "f3", "f2"]
    second = done(http.get("/v1/flows", params={"limit": 3, "cursor": first["next"]}))
    assert ([flow["id"] for flow in second["flows"]], second["next"]) == (["f1", "f0"], None)
    problem(http.get("/v1/flows", params={"state": "completed", "cursor": first["next"]}), 422, "cursor")
    assert [flow["id"] for flow in done(http.get("/v1/flows", params={"family": "x"}))["flows"]] == ["f3", "f1"]
    states = {flow["id"]: flow["state"] for flow in done(http.get("/v1/flows"))["flows"]}
    assert (states["f0"], states["f1"]) == ("executing", "executing"), "the crawl of f1 is open"
    assert done(http.get("/v1/flows", params={"state": "completed"}))["flows"] == []
    jobs = done(http.get("/v1/flows/f0/jobs", params={"limit": 2}))
    assert ([job["path"] for job in jobs["jobs"]], jobs["next"]) == (["a", "b"], 2)
    rest = done(http.get("/v1/flows/f0/jobs", params={"limit": 2, "first": jobs["next"]}))
    assert ([job["path"] for job in rest["jobs"]], rest["next"]) == (["c"], None)
    available = done(http.get("/v1/flows/f0/jobs", params={"state": "available"}))
    assert ([job["path"] for job in available["jobs"]], available["total"]) == (["a"], 1)


def test_a_bad_definition_is_named_and_leaves_nothing(http: httpx.Client) -> None:
    for body, field, detail in (
        ({"id": "x", "members": []}, "workflow", "'x' has no jobs"),
        ({"members": [a_step("a")]}, "id", "is missing"),
        (definition("x", a_step("a"), memberz=[]), "memberz", "is not a known field"),
        (definition("x", a_step("a", prio=1)), "members.0.prio", "is not a known field"),
        (definition("x", a_crawl("a", flow={"flow_uid": "u"})), "members.0.work.crawl.request.flow", "not a known"),
        (definition("x", a_crawl("a", tasks=0)), "members.0.work.crawl.request.tasks", "at least 1"),
        (definition("x", a_crawl("a", tasks="4")), "members.0.work.crawl.request.tasks", "whole number"),
        (definition("x", a_step("a", "b"), a_step("b", "a")), "deps", "form a cycle"),
        (definition("x", a_step("a", "nobody")), "deps", "'a' depends on 'nobody', which is not in the flow"),
        (definition("x", a_step("a"), a_step("a")), "name", "'a' is already in the flow"),
        (definition("x", a_step("a/b", "c"), a_step("c")), "needs", "outside of 'a'"),
        (definition("x" * 129, a_step("a")), "id", "at most 128"),
        ({"id": "x", "members": [{"path": "a", "work": {"kind": "step", "function": "lambda"}}]},
         "members.0.work.step.function", ""),
        ([], "body", ""),
    ):  # fmt: skip
        refusal = problem(http.post("/v1/flows", json=body), 422, field)
        assert detail in refusal.detail
        assert done(http.get("/v1/flows"))["flows"] == []


def test_bad_requests_are_named(http: httpx.Client) -> None:
    http.post("/v1/flows", json=definition("f"))
    for path, body, status, field in (
        ("cancel", {"jobs": ["nobody"]}, 404, None),
        ("cancel", {"job": "a"}, 422, "job"),
        ("cancel", {"jobs": ["a//b"]}, 422, "jobs.0"),
        ("retry", {"downstream": "some"}, 422, "downstream"),
        ("retry", {"arguments": {"x": 1}}, 422, "arguments"),
        ("approve", {"job": "a"}, 422, "name"),
        ("approve", {"job": "nobody"}, 404, None),
        ("approve", {}, 422, "job"),
        ("hold", {"hold": "still"}, 422, "hold"),
        ("stop", {"way": "now"}, 422, "way"),
        ("append", {"key": "k", "fragment": {"members": [a_step("a")]}}, 409, None),
        ("append", {"key": "k", "fragment": {"members": [a_step("z", prio=1)]}}, 422, "members.0.prio"),
        ("append", {"key": "k", "group": "g", "fragment": {"members": [a_step("z")]}}, 404, None),
        ("append", {"key": "", "fragment": {}}, 422, "key"),
    ):
        problem(http.post(f"/v1/flows/f/{path}", json=body), status, field)
    for path in ("cancel", "retry", "stop"):
        problem(http.post(f"/v1/flows/nobody/{path}", json={}), 404)
    for path in ("", "/jobs", "/results", "/graph", "/why?job=a", "/attempts?job=a", "/changes"):
        assert "there is no flow 'nobody'" in problem(http.get(f"/v1/flows/nobody{path}"), 404).detail
    for query, field in (
        ("/jobs?state=open", "state"),
        ("/jobs?jobs=a", "jobs"),
        ("/why?job=", "job"),
        ("?limit=0", "limit"),
        ("/graph?format=png", "format"),
        ("?state=done", "state"),
    ):
        problem(http.get(f"/v1/flows{'/f' if query[0] == '/' else ''}{query}"), 422, field)
    problem(http.get("/v1/flows/f/why", params={"job": "nobody"}), 404)
    problem(http.get("/v1/flows/f/results", params={"job": "nobody"}), 404)
    problem(http.post("/v1/flows", content=b"{", headers={"Content-Type": "application/json"}), 400, "body")
    assert [job["state"] for job in done(http.get("/v1/flows/f/jobs"))["jobs"]] == [
        "available",
        "suspended",
        "suspended",
    ]


def test_jobs_join_once_and_approvals_are_decided(http: httpx.Client) -> None:
    approval = {"path": "go", "work": {"kind": "approval", "note": "may we?"}}
    http.post("/v1/flows", json=definition("f", approval, a_step("a", "go")))
    addition = {"key": "k", "fragment": {"members": [a_step("z", "a")]}}
    assert done(http.post("/v1/flows/f/append", json=addition), 202)["count"] == 1
    repeated = done(http.post("/v1/flows/f/append", json=addition), 202)
    assert (repeated["count"], repeated["changed"]) == (0, False)
    assert done(http.post("/v1/flows/f/hold", json={"hold": "pause"}), 202)["changed"]
    assert done(http.get("/v1/flows/f"))["flow"]["state"] == "paused"
    assert done(http.post("/v1/flows/f/hold", json={"hold": "run"}), 202)["changed"]
    body = {"job": "go", "approved": False, "note": "no", "actor": "bob"}
    assert done(http.post("/v1/flows/f/approve", json=body), 202)["count"] == 1
    assert done(http.get("/v1/flows/f"))["timeline"][-1]["event"] == "rejected"


def test_who_may_do_what(api: Api, http: httpx.Client) -> None:
    http.post("/v1/flows", json=definition("f"))
    with api.client(Scope.READ) as reader:
        assert reader.get("/v1/flows/f").status_code == 200
        problem(reader.get("/v1/flows/f/results"), 403)
        problem(reader.post("/v1/flows", json=definition("g")), 403)
        for path in ("cancel", "retry", "stop"):
            problem(reader.post(f"/v1/flows/f/{path}", json={}), 403)
    with api.client(Scope.OPERATE) as operator:
        problem(operator.get("/v1/flows/f"), 403)
        problem(operator.get("/v1/flows/f/results"), 403)
    with api.client(Scope.RESULTS) as analyst:
        assert done(analyst.get("/v1/flows/f/results"))["results"] == {}
        problem(analyst.get("/v1/flows/f"), 403)
    for path in ("", "/f", "/nobody", "/f/jobs", "/f/results", "/f/changes", "/f/graph"):
        problem(httpx.get(f"{api.url}/v1/flows{path}", trust_env=False), 401)


def test_changes_are_streamed_to_the_end(http: httpx.Client, database: Database) -> None:
    http.post("/v1/flows", json=definition("f", a_step("a"), a_step("b", "a")))
    engine = hand(database, "f")
    with stream(http, "/v1/flows/f/changes") as events:
        first = next(events)
        assert (first.kind, first.data["is_over"]) == ("flow", False)
        assert [job["path"] for job in first.data["jobs"]] == ["a", "b"]
        engine.go_on()
        changed = next(events)
        assert [(job["path"], job["state"]) for job in changed.data["jobs"]] == [("a", "executing")]
        engine.play()
        rest = list(events)
    assert rest[-1].data["is_over"] is True
    assert rest[-1].data["status"]["state"] == "completed"


def test_runs_of_flows_are_hidden_unless_asked_for(http: httpx.Client, database: Database, make_run: MakeRun) -> None:
    own = make_run(tags=["nightly"]).run_id
    http.post("/v1/flows", json=definition("f", a_crawl("c", tags=["nightly", "books"])))
    engine = hand(database, "f")
    (crawl,) = engine.start_crawls(engine.start("c")).crawls
    of_flow = engine.run(crawl).run_id

    def runs(**filters: str) -> list[int]:
        return [run["run_id"] for run in done(http.get("/v1/runs", params=filters))["runs"]]

    assert runs() == [own]
    assert runs(flows="true") == [of_flow, own]
    assert runs(flow="f") == [of_flow]
    assert runs(tag="nightly") == [of_flow, own]
    assert runs(tag="books") == [of_flow]
    assert done(http.get(f"/v1/runs/{of_flow}"))["run"]["flow"] == {"id": "f", "path": "c", "attempt": 1}
    page = done(http.get("/v1/runs", params={"flows": "true", "limit": "1"}))
    problem(http.get("/v1/runs", params={"cursor": page["next"]}), 422, "cursor")


def test_a_run_from_outside_has_no_place_in_a_flow(http: httpx.Client) -> None:
    place = {"flow_uid": "u", "flow_id": "f", "member": 0, "path": "a", "generation": 1, "attempt": 1}
    problem(http.post("/v1/runs", json={"crawler": "bookshop", "flow": place}), 422, "flow")
    body = {"run": {"crawler": "bookshop", "flow": place}, "every_seconds": 60}
    problem(http.put("/v1/schedules/nightly", json=body), 422, "run.flow")


def test_the_example_of_a_flow_is_accepted(http: httpx.Client) -> None:
    done(http.post("/v1/flows", json={"id": "f", "members": A_CRAWL_AND_A_STEP}), 201)


def test_a_body_does_not_choose_the_door_of_the_record(http: httpx.Client) -> None:
    done(http.post("/v1/flows", json=definition()), 201)
    place = "/v1/flows/shop/one%20two"
    done(http.post(f"{place}/hold", json={"hold": "pause", "actor": "bob", "door": "temporal"}), 202)
    line = done(http.get(place))["timeline"][-1]
    assert (line["actor"], line["door"]) == ("bob (token ann)", "api")
