from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import pytest
from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import core_schema

from crawler_lifecycle.base.refusals import WORDS, expectation
from crawler_lifecycle.clusters.adapters.catalogue import Catalogue
from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.model.deployment import Mistake
from crawler_lifecycle.schedules.model import Overlap
from crawler_lifecycle.settings import configuration
from tests.kit.service.apis import Api, problem
from tests.kit.service.commands import Crawlctl

pytestmark = pytest.mark.regression(
    'Every door refused a value in pydantic\'s words, such as "Input should be greater than or equal to 1"'
)


def test_the_table_has_errors_of_pydantic_only() -> None:
    assert set(get_args(core_schema.ErrorType)) >= WORDS.keys()


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (Annotated[int, Ge(1)], 0, "expected at least 1, not 0"),
        (Annotated[int, Gt(1)], 0, "expected more than 1, not 0"),
        (Annotated[int, Le(1)], 2, "expected at most 1, not 2"),
        (Annotated[float, Lt(1)], 1.5, "expected less than 1.0, not 1.5"),
        (Annotated[datetime, Ge(datetime(1970, 1, 1, tzinfo=UTC))], "1960-01-01T00:00:00Z",
         "expected at least 1970-01-01T00:00:00Z, not 1960-01-01T00:00:00Z"),
        (Annotated[str, MinLen(1)], "", "expected 1 or more characters"),
        (Annotated[str, MaxLen(1)], "secret", "expected at most 1 characters"),
        (Annotated[list[int], MinLen(2)], [], "expected 2 or more entries"),
        (Annotated[list[int], MaxLen(1)], [1, 2], "expected at most 1 entries"),
        (Annotated[str, Field(pattern="^[a-z]+$")], "A", "expected a text like ^[a-z]+$"),
        (Annotated[str, Field(pattern="^[!-~]+$")], "a b",
         "expected visible ASCII characters without blanks, not 'a b'"),
        (Annotated[str, Field(pattern="^(run|pause|drain)$")], "x" * 99,
         f"expected run, pause or drain, not '{'x' * 60}'"),
        (Overlap, "later", "expected 'skip', 'queue', 'replace' or 'allow'"),
        (Literal["a", "b"], "c", "expected 'a' or 'b'"),
    ],
)  # fmt: skip
def test_the_table_fits_the_contexts_of_errors(kind: Any, value: object, words: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        TypeAdapter(kind).validate_python(value)
    assert expectation(refusal.value.errors()[0]) == words


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--tasks", "0"], "--tasks: expected at least 1, not 0"),
        (["--tasks", "1000000"], "--tasks: expected at most 100000, not 1000000"),
        (["--allowed-failures", "2"], "--allowed-failures: expected at most 1.0, not 2.0"),
        (["--grace", "0"], "--grace: expected at least 1 s, not 0 s"),
        (["--max-duration", "400d"], "--max-duration: expected at most 31622400 s, not 34560000 s"),
        (["--requested-by", "x" * 500], "--requested-by: expected at most 400 characters"),
    ],
)
def test_the_command_line(crawlctl: Crawlctl, words: list[str], line: str) -> None:
    assert crawlctl("run", "bookshop", *words).stderr == f"Error: {line}\n"


def test_the_command_line_for_a_schedule(crawlctl: Crawlctl) -> None:
    create = ("schedule", "create", "nightly", "bookshop", "--cron", "0 3 * * *")
    assert crawlctl(*create, "--jitter", "400d").stderr == (
        "Error: --jitter: expected at most 31622400 s, not 34560000 s\n"
    )


@pytest.mark.parametrize(
    ("body", "field", "detail"),
    [
        ({"crawler": "books", "tasks": 0}, "tasks", "expected at least 1, not 0"),
        ({"crawler": ""}, "crawler", "expected 1 or more characters"),
        ({}, "crawler", "is missing"),
        ({"crawler": "books", "taks": 1}, "taks", "is not a known field"),
        ({"crawler": "books", "retries": {"program": -1}}, "retries.program", "expected at least 0, not -1"),
    ],
)
def test_the_http_api(api: Api, body: dict[str, Any], field: str, detail: str) -> None:
    with api.client() as http:
        refused = problem(http.post("/v1/runs", json=body), 422, field)
    assert (refused.detail, refused.errors) == (f"{field}: {detail}", [Mistake(field=field, detail=detail)])


def test_the_http_api_for_lists_and_schedules(api: Api) -> None:
    schedule = {"every_seconds": 60, "overlap": "later", "run": {"crawler": "books"}}
    with api.client() as http:
        assert problem(http.get("/v1/runs?limit=0"), 422, "limit").detail == "limit: expected at least 1, not 0"
        unknown = problem(http.get("/v1/runs?status=NEARLY"), 422, "status").detail
        assert unknown.startswith("status: expected 'INITIALIZING', ")
        refused = problem(http.put("/v1/schedules/nightly", json=schedule), 422, "overlap")
    assert refused.detail == "overlap: expected 'skip', 'queue', 'replace' or 'allow'"


def test_settings_and_catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAWLER_WORKER__ACTIVITY_SLOTS", "0")
    with pytest.raises(NotReady, match=r"^CRAWLER_WORKER__ACTIVITY_SLOTS: expected at least 1, not 0$"):
        configuration.load()
    (tmp_path / "c.toml").write_text('[crawlers.books]\ncommand = ["true"]\nprocesses = 0\n')
    with pytest.raises(NotReady, match=r"crawlers\.books: processes: expected at least 1, not 0$"):
        Catalogue.load(tmp_path / "c.toml")
