"""The API's errors: one shape with a code and all mistakes, and the requests that only lenient readers understand."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from starlette.datastructures import Headers

from crawler_lifecycle.errors import (
    BadInput,
    Conflict,
    Fenced,
    LifecycleError,
    NotFound,
    NotReady,
    Over,
    PermanentError,
    Refused,
    TemporaryError,
)
from crawler_lifecycle.http.gate import refuse_body
from crawler_lifecycle.http.problems import CODES, problem_of
from tests.kit.clusters.schedulers import TOKEN, SmallCluster, a_catalogue
from tests.kit.clusters.schedulers import served as served_scheduler
from tests.kit.data.databases import MakeRun, copy_of
from tests.kit.service.apis import Api, problem, served

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def database_url(sqlite_template: Path, tmp_path: Path) -> str:
    """The errors are the same on both databases."""
    return copy_of(sqlite_template, tmp_path)


@pytest.fixture
def http(api: Api) -> Iterator[httpx.Client]:
    with api.client() as client:
        yield client


def mistakes(response: httpx.Response, status: int = 422) -> list[tuple[str, str]]:
    refusal = problem(response, status)
    assert refusal.code == "bad_input"
    assert refusal.field == refusal.errors[0].field
    return [(mistake.field, mistake.detail) for mistake in refusal.errors]


def test_all_mistakes_of_a_request_are_listed(http: httpx.Client) -> None:
    body = {"tasks": 0, "labels": ["Site"], "surprise": 1}
    answer = http.post("/v1/runs", json=body, headers={"Idempotency-Key": "a b"})
    fields = [field for field, _ in mistakes(answer)]
    assert sorted(fields) == ["Idempotency-Key", "crawler", "labels.0", "surprise", "tasks"]
    detail = answer.json()["detail"]
    assert "crawler: is missing" in detail
    assert "tasks: expected at least 1, not 0" in detail


def test_a_body_with_thousands_of_mistakes_has_a_short_answer(http: httpx.Client) -> None:
    answer = http.post("/v1/runs", json={"crawler": "shop", **dict.fromkeys(map(str, range(5000)), 1)})
    assert len(mistakes(answer)) == 100
    assert answer.json()["detail"].endswith("(and 4995 more)")


def test_a_definition_of_a_flow_lists_its_mistakes_too(http: httpx.Client) -> None:
    members = [{"path": "a", "work": {"kind": "crawl", "request": {"crawler": "shop", "tasks": "3"}}, "retries": 1}]
    refusal = mistakes(http.post("/v1/flows", json={"id": "x", "members": members}))
    assert [field.rpartition(".")[2] for field, _ in refusal] == ["tasks", "retries"]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/runs/4711", 404, "not_found"),
        ("GET", "/v1/nothing", 404, "not_found"),
        ("PATCH", "/v1/runs", 405, "method_not_allowed"),
        ("GET", "/v1/runs?statuss=1", 422, "bad_input"),
    ],
)
def test_every_error_has_a_code(http: httpx.Client, method: str, path: str, status: int, code: str) -> None:
    assert problem(http.request(method, path), status).code == code


def test_strangers_get_a_code(api: Api) -> None:
    assert problem(httpx.get(f"{api.url}/v1/runs", trust_env=False), 401).code == "unauthenticated"


def test_a_body_of_a_stranger_is_not_read(api: Api) -> None:
    answer = httpx.post(f"{api.url}/readyz", content=b"no JSON", headers=JSON, trust_env=False)
    assert problem(answer, 405).code == "method_not_allowed"


def test_classes_of_errors_have_the_codes_of_the_table(api: Api) -> None:
    errors = [
        kind("x") for kind in (NotFound, Conflict, Over, TemporaryError, NotReady, PermanentError, Refused, Fenced)
    ]
    known_codes = {type(error).__name__: (problem_of(error).status, problem_of(error).code) for error in errors}
    assert known_codes == {
        "NotFound": (404, "not_found"),
        "Conflict": (409, "refused"),
        "Over": (409, "over"),
        "TemporaryError": (503, "not_ready"),
        "NotReady": (503, "not_ready"),
        "PermanentError": (422, "failed"),
        "Refused": (422, "failed"),
        "Fenced": (422, "failed"),
    }
    description = api.app.description
    known = {*CODES.values(), *(error.code for error in errors), BadInput.code, LifecycleError.code}
    assert {code for code in known if f"`{code}`" not in description} == set()


def test_repeated_keys_of_a_body_are_refused(http: httpx.Client) -> None:
    """A key inside of an object was named without the object."""
    body = b'{"crawler": "shop", "crawler": "sleeper", "arguments": {"a": "1", "a": "2", "b": "3"}}'
    refusal = mistakes(http.post("/v1/runs", content=body, headers=JSON))
    assert refusal == [("arguments.a", "expected once"), ("crawler", "expected once")]


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1" * 5000], ids=["nan", "infinity", "digits"])
def test_a_number_that_readers_do_not_share_is_refused(http: httpx.Client, value: str) -> None:
    answer = http.post("/v1/runs", content=f'{{"crawler": "shop", "tasks": {value}}}'.encode(), headers=JSON)
    assert [field for field, _ in mistakes(answer, 400)] == ["body"]


@pytest.mark.long
def test_a_repeated_key_among_thousands_is_found_in_a_moment() -> None:
    """Every comparison of one key with all others would take minutes, and the API answers nobody meanwhile."""
    keys = [f'"{number}": 0' for number in range(50_000)]
    began_at = time.process_time()
    refused = refuse_body(Headers(JSON), f"{{{', '.join([*keys, keys[0]])}}}".encode())
    assert refused is not None
    assert json.loads(bytes(refused.body))["errors"] == [{"field": "0", "detail": "expected once"}]
    assert time.process_time() - began_at < 5


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "utf-8-sig", "latin-1"])
def test_a_body_in_another_encoding_than_utf_8_is_refused(http: httpx.Client, encoding: str) -> None:
    body = json.dumps({"crawler": "caf\u00e9"}, ensure_ascii=False).encode(encoding)
    assert [field for field, _ in mistakes(http.post("/v1/runs", content=body, headers=JSON), 400)] == ["body"]


@pytest.mark.long
def test_however_deep_a_body_is_nested_the_refusal_names_the_body(http: httpx.Client) -> None:
    """At some depths a body could be read by one reader, and not by the next one."""
    for depth in (*range(190, 1010, 10), 100_000):
        answer = http.post("/v1/runs", content=b"[" * depth + b"]" * depth, headers=JSON)
        assert [field for field, _ in mistakes(answer)] == ["body"]


@pytest.mark.parametrize(("kind", "body"), [("text/plain", b"{}"), ("", b"{}"), ("application/x-json", b"{}")])
def test_a_body_of_another_type_is_refused(http: httpx.Client, kind: str, body: bytes) -> None:
    refusal = problem(http.post("/v1/limits/resume", content=body, headers={"Content-Type": kind}), 415, "Content-Type")
    assert refusal.code == "unsupported_media_type"


@pytest.mark.parametrize("path", ["/v1/runs/", "/v1/schedules/", "/v1/runs/1/"])
def test_a_slash_at_the_end_is_no_redirect(http: httpx.Client, path: str) -> None:
    answer = http.get(path, headers={"Host": "evil.example"})
    problem(answer, 404)
    assert "location" not in answer.headers


@pytest.mark.parametrize("moment", ["5", "0.5", "-5", "1e3", "1763629207", "2026-11-20", "2026-11-20T03:00:00"])
@pytest.mark.long
def test_a_time_without_a_zone_is_refused(http: httpx.Client, moment: str) -> None:
    for name in ("since", "until"):
        refusal = mistakes(http.get("/v1/runs", params={name: moment}))
        assert [field for field, _ in refusal] == [name]


def test_a_number_is_no_time_in_a_body(http: httpx.Client) -> None:
    refusal = mistakes(http.post("/v1/schedules/x/backfill", json={"since": 5, "until": 6.5}))
    assert [field for field, _ in refusal] == ["since", "until"]


def test_times_with_a_zone_are_read(http: httpx.Client, make_run: MakeRun) -> None:
    make_run()
    for moment in ("2020-01-01T00:00:00Z", "2020-01-01T01:00:00+01:00"):
        assert len(http.get("/v1/runs", params={"since": moment}).json()["runs"]) == 1


def test_an_unknown_crawler_is_not_found(database_url: str, tmp_path: Path) -> None:
    with served_scheduler(SmallCluster(), a_catalogue(tmp_path)) as scheduler:
        variables = {"CRAWLER_SCHEDULER__URL": scheduler, "CRAWLER_SCHEDULER__TOKEN": TOKEN}
        with served(tmp_path, database_url, **variables) as api, api.client() as http:
            assert http.get("/v1/crawlers/bookshop").json()["processes"] == 4
            refusal = problem(http.get("/v1/crawlers/nosuch"), 404)
    assert (refusal.code, refusal.detail, refusal.errors) == (
        "not_found",
        "there is no crawler 'nosuch' in the catalogue",
        [],
    )
