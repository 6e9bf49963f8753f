"""Limits and pauses by the HTTP API: who may change them, what is refused, and what becomes of them."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.http.tokens import Scope
from tests.kit.data.databases import MakeRun, copy_of, ref_to
from tests.kit.service.apis import Api, problem

SITE = {"label": "site:example.com"}


@pytest.fixture
def database_url(sqlite_template: Path, tmp_path: Path) -> str:
    """One kind is enough here: the tests in `contracts` have both."""
    return copy_of(sqlite_template, tmp_path)


@pytest.fixture
def http(api: Api) -> Iterator[httpx.Client]:
    with api.client(token=api.tokens.make("ann", tuple(Scope))) as client:
        yield client


def by_scope(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    return {record["scope"]: record for record in answer.json()["limits"]}


def test_limits_go_around(http: httpx.Client) -> None:
    assert by_scope(http.get("/v1/limits"))["installation"]["tasks"] == 1000
    site = by_scope(http.put("/v1/limits", json={**SITE, "runs": 2, "weight": 3, "allow_unknown": True}))[
        "label:site:example.com"
    ]
    assert (site["runs"], site["tasks"], site["weight"], site["changed_by"]) == (2, None, 3, "token ann")
    assert by_scope(http.put("/v1/limits", json={"tasks": 20}))["installation"]["tasks"] == 20
    site = by_scope(http.put("/v1/limits", json={**SITE, "runs": None}))["label:site:example.com"]
    assert (site["runs"], site["weight"]) == (None, 3)
    pause = http.post("/v1/limits/pause?actor=bob", json={**SITE, "reason": "rebuilt"})
    paused = by_scope(pause)["label:site:example.com"]
    assert (paused["paused_by"], paused["paused_reason"]) == ("bob (token ann)", "rebuilt")
    assert by_scope(http.get("/v1/limits"))["label:site:example.com"] == paused
    without_limits = by_scope(http.get("/v1/limits?crawler=books"))["crawler:books"]
    assert (without_limits["runs"], without_limits["runs_begun"], without_limits["changed_at"]) == (None, 0, None)
    resumed = by_scope(http.post("/v1/limits/resume", json=SITE))["label:site:example.com"]
    assert (resumed["paused_at"], resumed["paused_reason"], resumed["weight"]) == (None, None, 3)
    assert "label site:example.com is not paused" in problem(http.post("/v1/limits/resume", json=SITE), 404).detail
    assert "the installation is not paused" in problem(http.post("/v1/limits/resume", json={}), 404).detail


def test_what_is_not_acceptable_is_named_and_changes_nothing(http: httpx.Client) -> None:
    before = http.get("/v1/limits").json()
    for body, field in (
        ({}, "runs"),
        (SITE, "runs"),
        ({"runs": 0}, "runs"),
        ({"runs": "2"}, "runs"),
        ({"tasks": 1}, "tasks"),
        ({"weight": 2}, "weight"),
        ({**SITE, "weight": 0}, "weight"),
        ({"label": "", "runs": 1}, "label"),
        ({"label": "example.com", "runs": 1}, "label"),
        ({"crawler": "", "runs": 1}, "crawler"),
        ({**SITE, "crawler": "books", "runs": 1}, "label"),
        ({"runs": 1, "lable": "site:example.com"}, "lable"),
        ({"runs": 1, "actor": "bob"}, "actor"),
        ([], "body"),
    ):
        problem(http.put("/v1/limits", json=body), 422, field)
    for body, field in (
        ({}, "reason"),
        ({"reason": " "}, "reason"),
        ({"reason": "x" * 1025}, "reason"),
        ({"reason": "x", "crawler": ""}, "crawler"),
        ({"reason": "x", "until": "noon"}, "until"),
    ):
        problem(http.post("/v1/limits/pause", json=body), 422, field)
    for body, field in (({"label": ""}, "label"), ({"crawler": ""}, "crawler"), ({"scope": "installation"}, "scope")):
        problem(http.post("/v1/limits/resume", json=body), 422, field)
    problem(http.post("/v1/limits/resume"), 422, "body")
    problem(http.put("/v1/limits", content=b"{", headers={"Content-Type": "application/json"}), 400, "body")
    assert http.get("/v1/limits").json() == before


@pytest.mark.long
def test_who_may_read_may_not_change(api: Api, http: httpx.Client) -> None:
    with api.client(Scope.READ) as reader:
        assert reader.get("/v1/limits").status_code == 200
        problem(reader.put("/v1/limits", json={"runs": 1}), 403)
        problem(reader.post("/v1/limits/pause", json={"reason": "x"}), 403)
        problem(reader.post("/v1/limits/resume", json={}), 403)
    with api.client(Scope.OPERATE) as operator:
        problem(operator.get("/v1/limits"), 403)
    problem(httpx.get(f"{api.url}/v1/limits", trust_env=False), 401)
    assert by_scope(http.get("/v1/limits"))["installation"]["changed_by"] is None


def test_a_run_in_line_tells_its_scope_and_place(http: httpx.Client, database: Database, make_run: MakeRun) -> None:
    http.put("/v1/limits", json={**SITE, "runs": 1, "allow_unknown": True})
    claims = SqlStore(database).claims
    runs = [make_run(labels=["site:example.com"], priority=priority) for priority in (0, 0, 5)]
    for run in runs:
        claims.claim_main(ref_to(run), "test", timedelta(seconds=60))
    first, second, third = (http.get(f"/v1/runs/{run.run_id}").json() for run in runs)
    assert first["run"]["admitted_at"]
    assert first["place"] is None
    assert (second["place"], third["place"]) == ({"number": 2, "length": 2}, {"number": 1, "length": 2})
    assert (second["run"]["waiting_cause"], second["run"]["held_by"]) == ("admission", "label:site:example.com")
    site = by_scope(http.get("/v1/limits"))["label:site:example.com"]
    assert (site["runs_begun"], site["runs_held"]) == (1, 2)
    listed = {run["run_id"]: run["priority"] for run in http.get("/v1/runs").json()["runs"]}
    assert listed[runs[2].run_id] == 5
