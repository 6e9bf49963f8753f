"""The API's reading doors over real HTTP and real databases: who gets in, what they read, page by page."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import pytest
from sqlalchemy import update

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.schema import task_histories
from crawler_lifecycle.errors import NotFound
from crawler_lifecycle.http.tokens import Scope
from crawler_lifecycle.model.crawl_results import CrawlResult
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from crawler_lifecycle.runs.commands.reading import RunReader
from tests.kit.data.crawl_results import end_tasks
from tests.kit.data.databases import MakeRun, copy_of, ref_to
from tests.kit.data.statements import counted
from tests.kit.service.apis import Api, problem, served

MISSING = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def database_url(sqlite_template: Path, tmp_path: Path) -> str:
    """One kind is enough here: the tests in `contracts` have both."""
    return copy_of(sqlite_template, tmp_path)


@pytest.fixture
def http(api: Api) -> Iterator[httpx.Client]:
    with api.client() as client:
        yield client


def test_runs_come_in_pages_and_with_filters(http: httpx.Client, database: Database, make_run: MakeRun) -> None:
    made = [make_run(2).run_id for _ in range(5)]
    SqlStore(database).runs.mark_started(ref_to(make_run(1)))
    seen, cursor = list[int](), ""
    while True:
        given: dict[str, str] = {"cursor": cursor} if cursor else {}
        page = http.get("/v1/runs", params={"limit": "2", "status": "INITIALIZING", **given})
        seen += [run["run_id"] for run in page.json()["runs"]]
        if not (cursor := page.json()["next"]):
            break
    assert seen == made[::-1]
    assert [run["status"] for run in http.get("/v1/runs?status=PROCESSING").json()["runs"]] == ["PROCESSING"]
    assert http.get("/v1/runs?crawler=another").json() == {"runs": [], "since": None, "next": None}


def test_a_run_tells_what_its_crawls_said(http: httpx.Client, database: Database, make_run: MakeRun) -> None:
    store, run = SqlStore(database), make_run(3)
    open_run = http.get(f"/v1/runs/{run.run_id}").json()["run"]
    assert [open_run[name] for name in ("outcome", "stats", "result")] == [None, None, None]
    main = CrawlResult(outcome="banned", stats={"items": 3, "bytes": 5_000, "why": "403"}, result={"next": [7]})
    child = CrawlResult(stats={"items": 4, "pages": 9, "errors": 1})
    end_tasks(database, run, [main, child, None])
    store.runs.close(ref_to(run), RunStatus.COMPLETED, "all_succeeded")
    sums = {"items": 7, "bytes": 5_000, "pages": 9, "errors": 1}
    closed = http.get(f"/v1/runs/{run.run_id}").json()["run"]
    assert (closed["outcome"], closed["stats"], closed["result"]) == ("banned", sums, {"next": [7]})
    (line,) = http.get("/v1/runs").json()["runs"]
    assert (line["outcome"], line["stats"]) == ("banned", sums)
    assert http.get("/v1/runs?outcome=banned").json()["runs"] == [line]
    assert http.get("/v1/runs?outcome=finished").json()["runs"] == []
    assert http.get("/v1/run-counts?outcome=banned").json() == {"counts": {"COMPLETED": 1}, "at_least": []}
    said = [http.get(f"/v1/runs/{run.run_id}/tasks/{task}").json()["crawl_result"] for task in range(3)]
    assert said == [main.model_dump(), child.model_dump(), None]


def test_the_use_of_a_period(http: httpx.Client, database: Database, make_run: MakeRun) -> None:
    """`tests/runs/contracts/test_sql_usage.py` has the sums."""
    run = make_run(labels=["tenant:acme"])
    assert http.get(f"/v1/runs/{run.run_id}").json()["run"]["task_seconds"] is None
    end_tasks(database, run, [None])
    ended_at = SqlStore(database).runs.close(ref_to(run), RunStatus.COMPLETED, "all_succeeded").finished_at
    assert http.get(f"/v1/runs/{run.run_id}").json()["run"]["task_seconds"] == 0
    usage = http.get("/v1/usage?by=tenant").json()
    assert [(group["name"], group["runs"]) for group in usage["groups"]] == [("acme", 1)]
    assert usage["total"] == usage["groups"][0] | {"name": None}
    since, until = (datetime.fromisoformat(usage[name]) for name in ("since", "until"))
    assert until - since == timedelta(days=30)
    assert ended_at is not None
    older = http.get("/v1/usage", params={"until": ended_at.isoformat()}).json()
    assert (older["by"], older["groups"], older["total"]["runs"]) == ("crawler", [], 0)
    for query in ("by=colour", "since=yesterday", "until=2026-11-01"):
        problem(http.get(f"/v1/usage?{query}"), 422, query.partition("=")[0])
    october = {"since": "2026-10-01T00:00:00Z", "until": "2026-11-01T00:00:00Z"}
    assert http.get("/v1/usage", params=october).status_code == 200
    longer = problem(http.get("/v1/usage", params=october | {"until": "2026-11-01T00:00:01Z"}), 422, "since")
    assert "at most 31 days" in longer.detail


@pytest.mark.parametrize(("reason", "outcome"), [("oom_killed", "killed by oom"), ("exit_3", "failed")])
def test_a_failed_run_has_an_outcome_word_without_any_result(
    http: httpx.Client, database: Database, make_run: MakeRun, reason: str, outcome: str
) -> None:
    run = make_run()
    end_tasks(database, run, [None], TaskStatus.FAILED, reason)
    SqlStore(database).runs.close(ref_to(run), RunStatus.FAILED, "main_job_failed")
    closed = http.get(f"/v1/runs/{run.run_id}").json()["run"]
    assert (closed["outcome"], closed["stats"], closed["result"]) == (outcome, None, None)


def test_runs_are_chosen_by_several_values_and_counted(
    http: httpx.Client, database: Database, make_run: MakeRun
) -> None:
    store, runs = SqlStore(database), [make_run(requested_by=name) for name in ("ann", "bob", "ann")]
    for run, reason in zip(runs, ("stopped", "main_job_failed"), strict=False):
        store.tasks.cancel_queued(ref_to(run), "stopped")
        store.runs.close(ref_to(run), RunStatus.FAILED, reason)

    def chosen(query: str) -> list[int]:
        numbers = [run["run_id"] for run in http.get(f"/v1/runs?{query}").json()["runs"]]
        assert sum(http.get(f"/v1/run-counts?{query}").json()["counts"].values()) == len(numbers)
        return numbers

    stopped, failed, begun = (run.run_id for run in runs)
    assert chosen("listed=STOPPED&listed=INITIALIZING") == [begun, stopped]
    assert chosen("status=FAILED") == [failed, stopped]
    assert chosen("status=FAILED&requested_by=ann") == [stopped]
    assert chosen("since=2100-01-01T00:00:00Z") == []
    assert chosen("until=2100-01-01T00:00:00Z&trigger=api&reason=main_job_failed") == [failed]
    counts = {"FAILED": 1, "INITIALIZING": 1, "STOPPED": 1}
    assert http.get("/v1/run-counts").json() == {"counts": counts, "at_least": []}
    for query in ("listed=LATE", "since=today", "search=a&search=b", "trigger=clock"):
        problem(http.get(f"/v1/run-counts?{query}"), 422, query.partition("=")[0])


def test_a_part_of_a_name_finds_its_crawlers(http: httpx.Client, make_run: MakeRun) -> None:
    mixer, percent = (make_run(entry=Crawler(name=name)).run_id for name in ("The-Mixer", "100%_done"))
    for part, found in (("mix", [mixer]), ("%", [percent]), ("_", [percent]), ("0%_D", [percent]), ("\\", [])):
        page = http.get("/v1/runs", params={"search": part}).json()
        assert [run["run_id"] for run in page["runs"]] == found, part
    problem(http.get("/v1/runs?search="), 422, "search")


def test_metrics_count_also_who_is_not_let_in(api: Api, http: httpx.Client, make_run: MakeRun) -> None:
    run = make_run().run_id
    for _ in range(2):
        http.get(f"/v1/runs/{run}")
    problem(httpx.get(f"{api.url}/v1/runs", trust_env=False), 401)
    problem(httpx.get(f"{api.url}/metrics", trust_env=False), 401)
    text = http.get("/metrics").text
    assert 'api_requests_total{method="GET",route="/v1/runs/{run}",status="200"} 2.0' in text
    assert 'api_requests_total{method="GET",route="none",status="401"} 2.0' in text
    assert "api_streams 0.0" in text
    assert "python_info" in text


def test_metrics_count_what_went_wrong_unforeseen(
    api: Api, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No answer of 500 was ever counted: the framework gives them outside of all that is added to it."""

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(api.app.state.api.control.runs, "overview", broken)
    problem(http.get("/v1/runs/1"), 500)
    with api.client() as another:  # the connection of a request that ended so is closed
        text = another.get("/metrics").text
    assert 'api_requests_total{method="GET",route="/v1/runs/{run}",status="500"} 1.0' in text


def test_a_list_does_not_check_the_schema_again(api: Api, http: httpx.Client, make_run: MakeRun) -> None:
    """An API has checked it at the start, and readiness checks it once a second."""
    make_run()
    control = api.app.state.api.control
    with counted(control.parts.database) as statements:
        assert len(http.get("/v1/runs").json()["runs"]) == 1
        statements.clear()
        assert len(http.get("/v1/runs").json()["runs"]) == 1
        assert http.get("/v1/runs?reason=no_such").json()["runs"] == []
    assert not [text for text in statements if "alembic_version" in text or "FROM installation" in text]


def test_a_cursor_from_elsewhere_is_refused(http: httpx.Client, make_run: MakeRun) -> None:
    for _ in range(3):
        make_run()
    cursor = http.get("/v1/runs?limit=1").json()["next"]
    assert http.get("/v1/runs", params={"limit": 2, "cursor": cursor}).status_code == 200
    for params in ({"status": "FAILED"}, {"crawler": "books"}):
        problem(http.get("/v1/runs", params={"cursor": cursor, **params}), 422, "cursor")
    for wrong in ("", "x", cursor[:-1], cursor[::-1], "é", "0" * 129, "NDIuM2Y5YTFiN2M2ZDhl"):
        problem(http.get("/v1/runs", params={"cursor": wrong}), 422, "cursor")


def test_a_filter_that_cannot_be_is_named(http: httpx.Client) -> None:
    for query in ("status=LATE", "limit=0", "limit=many", "limit=501", "crawler=", "crawler=%00"):
        problem(http.get(f"/v1/runs?{query}"), 422, query.partition("=")[0])


@pytest.mark.long
def test_a_run_is_told_without_its_tasks_and_those_by_the_page(http: httpx.Client, make_run: MakeRun) -> None:
    run = make_run(2500, requested_by="ann")
    view = http.get(f"/v1/runs/{run.run_id}").json()
    assert view["run"]["tasks"] == {"QUEUED": 2500}
    assert (view["main_task"], view["log"][0]["actor"], view["exports"]) == ("QUEUED", "ann", [])
    assert "tasks" not in view
    assert http.get(f"/v1/runs/{run.run_uid}").json() == view
    seen, first = list[int](), 0
    while first is not None:
        page = http.get(f"/v1/runs/{run.run_id}/tasks", params={"first": first, "limit": 1000}).json()
        seen += [task["task"] for task in page["tasks"]]
        first = page["next"]
    assert (seen, page["total"]) == (list(range(2500)), 2500)
    none = http.get(f"/v1/runs/{run.run_id}/tasks?status=FAILED").json()
    assert none == {"tasks": [], "total": 0, "next": None}
    task = http.get(f"/v1/runs/{run.run_id}/tasks/2499").json()
    assert (task["task"], task["status"], task["events"]) == (2499, TaskStatus.QUEUED, [])
    part = http.get(f"/v1/runs/{run.run_id}/logs", params={"task": 7, "offset": -10}).json()
    assert part == {"attempt": 1, "text": "", "offset": 0, "ended": False}


@pytest.mark.long
def test_what_is_not_there_is_not_found(http: httpx.Client) -> None:
    for run in ("4711", MISSING, "x", "%00", "9" * 30, "١", "-1", "1.0"):
        for path in ("", "/tasks", "/tasks/0", "/logs", "/logs/stream"):
            problem(http.get(f"/v1/runs/{run}{path}"), 404)


def test_a_log_that_is_gone_is_not_found_by_those_who_follow_it_either(
    http: httpx.Client, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> None:
        raise NotFound("its job is gone")

    monkeypatch.setattr(RunReader, "task_log", gone)
    run = make_run().run_id
    for path in ("logs", "logs/stream"):
        assert problem(http.get(f"/v1/runs/{run}/{path}"), 404).detail == "its job is gone"


@pytest.mark.long
def test_tasks_that_are_not_there(http: httpx.Client, make_run: MakeRun) -> None:
    run = make_run(2).run_id
    for number in ("2", "-1", "99999999999999999999"):
        problem(http.get(f"/v1/runs/{run}/tasks/{number}"), 404)
    problem(http.get(f"/v1/runs/{run}/tasks/main"), 422, "task")
    problem(http.get(f"/v1/runs/{run}/logs?task=2"), 404)
    problem(http.get(f"/v1/runs/{run}/logs?offset=end"), 422, "offset")


def test_no_token_no_answer(api: Api) -> None:
    with httpx.Client(base_url=api.url, trust_env=False, timeout=60) as nobody:
        for path in ("/v1/runs", "/v1/changes", "/v1/runs/1/logs/stream", "/openapi.json", "/nowhere", "//v1/runs"):
            for given in (None, "", "Bearer", "Bearer x", "Bearer x y", "Basic eDp4", "Bearer \xe9"):
                headers = httpx.Headers({"Authorization": given} if given is not None else {}, encoding="latin-1")
                refused = nobody.get(path, headers=headers)
                problem(refused, 401)
                assert refused.headers["www-authenticate"] == "Bearer"
        assert nobody.get("/healthz").json() == {"status": "alive"}
        assert nobody.get("/").status_code == 200


def test_a_scope_opens_its_own_doors_only(api: Api, make_run: MakeRun) -> None:
    run = make_run().run_id
    with api.client(Scope.READ) as reader, api.client(Scope.OPERATE) as operator:
        assert reader.get(f"/v1/runs/{run}").status_code == 200
        for path in ("/v1/runs", f"/v1/runs/{run}/stop", f"/v1/runs/{run}/resume", f"/v1/runs/{run}/export"):
            assert "operate" in problem(reader.post(path, json={"crawler": "books"}), 403).detail
        for path in ("/v1/runs", f"/v1/runs/{run}", "/v1/changes", f"/v1/runs/{run}/logs"):
            assert "read" in problem(operator.get(path), 403).detail
        assert operator.get("/v1/me").json()["scopes"] == ["operate"]


def test_a_token_that_is_taken_back_is_refused_at_once(api: Api) -> None:
    token = api.tokens.make("guest", [Scope.READ])
    with api.client(token=token) as guest:
        assert guest.get("/v1/runs").status_code == 200
        api.tokens.revoke("guest")
        problem(guest.get("/v1/runs"), 401)
        api.tokens.path.write_text("not json")
        told = problem(guest.get("/v1/runs"), 503)
    assert api.tokens.path.name in told.detail


def test_a_hash_that_is_none_is_told(api: Api) -> None:
    token = api.token(Scope.READ)
    known = api.tokens.path.read_text()
    api.tokens.path.write_text(known.replace(api.tokens.all()[0].hash, "é" * 64))
    with api.client(token=token) as guest:
        assert "tokens.0.hash" in problem(guest.get("/v1/runs"), 503).detail


def test_the_file_of_tokens_holds_no_token(api: Api) -> None:
    token = api.token(Scope.READ)
    assert token not in api.tokens.path.read_text()
    assert api.tokens.path.stat().st_mode & 0o077 == 0


def test_too_much_is_too_much(database_url: str, tmp_path: Path) -> None:
    limits = {"CRAWLER_API__REQUESTS_PER_SECOND": "0.5", "CRAWLER_API__LARGEST_BODY": "2000"}
    with served(tmp_path, database_url, **limits) as api, api.client() as http, api.client() as other:
        problem(http.post("/v1/runs", content=b"x" * 2001), 413)
        problem(http.post("/v1/runs", content=iter([b'{"crawler": "', b"x" * 2000])), 413)
        while (answer := http.get("/v1/me")).status_code == 200:
            pass
        problem(answer, 429)
        assert int(answer.headers["retry-after"]) >= 1
        assert other.get("/v1/me").status_code == 200


def test_other_origins_are_welcome_only_if_they_are_set(api: Api, database_url: str, tmp_path: Path) -> None:
    asks = {"Origin": "https://ui.example", "Access-Control-Request-Method": "GET"}
    with api.client() as http:
        assert "access-control-allow-origin" not in http.get("/v1/me", headers=asks).headers
    with (
        served(tmp_path / "other", database_url, CRAWLER_API__ORIGINS="https://ui.example") as open_to_one,
        open_to_one.client() as http,
    ):
        assert http.options("/v1/me", headers=asks).headers["access-control-allow-origin"] == "https://ui.example"
        stranger = asks | {"Origin": "https://elsewhere.example"}
        assert "access-control-allow-origin" not in http.get("/v1/me", headers=stranger).headers


def test_temporal_that_is_away_is_told(api: Api, make_run: MakeRun) -> None:
    run = make_run().run_id
    with api.client() as http:
        told = problem(http.post(f"/v1/runs/{run}/resume"), 503)
        assert "Temporal" in told.detail
        assert problem(http.get("/readyz"), 503).detail == "temporal: unavailable"
        assert http.post(f"/v1/runs/{run}/stop", json={"reason": "r"}).json()["intent"] == "STOP"
        assert http.get(f"/v1/runs/{run}").json()["log"][-1]["door"] == "api"


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.long
def test_strangers_do_not_learn_where_the_database_is(
    tmp_path: Path, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    file, away = Path(database_url.removeprefix("sqlite:///")), tmp_path / "away.db"
    with served(tmp_path, database_url) as api:
        file.rename(away)
        answer = problem(httpx.get(f"{api.url}/readyz", timeout=30), 503)
        away.rename(file)
    assert (answer.detail, answer.field, answer.cause) == ("database: not_ready", None, None)
    assert f"there is no database at {file}" in caplog.text


def test_tasks_are_sorted_page_after_page(http: httpx.Client, database: Database, make_run: MakeRun) -> None:
    run = make_run(5)
    for number, code in {1: 0, 3: 137, 4: 3}.items():
        with database.transaction() as connection:
            row = update(task_histories).filter_by(history_id=run.run_id, task=number)
            connection.execute(row.values(exit_code=code, status=TaskStatus.FAILED))

    def pages(query: str) -> list[list[int]]:
        numbers, first = list[list[int]](), 0
        while True:
            answer = http.get(f"/v1/runs/{run.run_id}/tasks?limit=2&first={first}&{query}").json()
            numbers.append([task["task"] for task in answer["tasks"]])
            if (first := answer["next"]) is None:
                return numbers

    assert pages("sort=-exit_code") == [[3, 4], [1, 0], [2]]
    assert pages("sort=exit_code&status=FAILED") == [[1, 4], [3]]
    assert pages("sort=-task") == [[4, 3], [2, 1], [0]]
    assert pages("sort=task&status=QUEUED") == [[0, 2]]
    for wrong in ("sort=node", "sort=--task", "sort=", "sort=task&sort=status"):
        problem(http.get(f"/v1/runs/{run.run_id}/tasks?{wrong}"), 422, "sort")
