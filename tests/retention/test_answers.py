"""The doors answer a removed run with the date, by RunID and by run_uid."""

import itertools
import json
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
from click.testing import CliRunner, Result

from crawler_lifecycle.cli.program import main
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.http.tokens import Scope
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.retention.store import RetentionStore
from tests.kit.data.databases import copy_of
from tests.kit.service.apis import DOCUMENT, Api, problem
from tests.retention.old_runs import CUTOFF, Old

BODIES = {"tasks": {"count": 1}, "stop": {}, "resume": {}}
KEY = {"Idempotency-Key": "more"}
DOORS = [
    (method, path)
    for path, methods in json.loads(DOCUMENT.read_text())["paths"].items()
    for method in methods
    if "{run}" in path
]
COMMANDS = [[name, "RUN"] for name in ("show", "watch", "logs", "stop", "fetch", "resume", "export")]


@pytest.fixture
def database_url(sqlite_template: Path, tmp_path: Path) -> str:
    """A single kind of database: `test_store` has both."""
    return copy_of(sqlite_template, tmp_path)


@pytest.fixture
def gone(database: Database, old: Old) -> RunRecord:
    run = old()
    assert RetentionStore(database).remove([run.run_id], CUTOFF) == [run.run_uid]
    return run


def test_every_door_of_a_run_answers_410(api: Api, gone: RunRecord) -> None:
    with api.client() as http:
        for (method, path), key in itertools.product(DOORS, (gone.run_id, gone.run_uid)):
            body = BODIES.get(path.rsplit("/", 1)[-1]) if method == "post" else None
            filled = path.replace("{run}", str(key)).replace("{task}", "0")
            answer = problem(http.request(method.upper(), filled, json=body, headers=KEY), 410)
            assert answer.code == "removed"
            assert f"removed by retention on {datetime.now(UTC).date()}" in str(answer.detail)
            unknown = path.replace("{run}", str(uuid4())).replace("{task}", "0")
            assert http.request(method.upper(), unknown, json=body, headers=KEY).status_code == 404


def test_no_door_is_left_out() -> None:
    assert len(DOORS) >= 11
    assert {path.rsplit("/", 1)[-1] for _, path in DOORS} >= {"details", "tasks", "logs", "stream", "stop", "archive"}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.long
def test_every_command_for_a_run_says_when_it_was_removed(
    api: Api, gone: RunRecord, tmp_path: Path, command: list[str]
) -> None:
    environment = {"CRAWLER_REMOTE__URL": api.url, "CRAWLER_REMOTE__TOKEN": api.token(*Scope)}

    def crawlctl(*words: str) -> Result:
        return CliRunner(env={"CRAWLER_STATE": str(tmp_path / "state"), **environment}).invoke(main, words)

    for key in (gone.run_id, gone.run_uid):
        result = crawlctl(*(str(key) if word == "RUN" else word for word in command))
        assert result.exit_code == 3, result.output
        assert f"removed by retention on {datetime.now(UTC).date()}" in result.stderr
