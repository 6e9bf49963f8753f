from pathlib import Path

import pytest
from click.testing import CliRunner

from crawler_lifecycle.cli.program import main
from crawler_lifecycle.http.tokens import Scope
from tests.kit.clusters.schedulers import TOKEN, SmallCluster, a_catalogue
from tests.kit.clusters.schedulers import served as served_scheduler
from tests.kit.data.databases import copy_of
from tests.kit.service.apis import problem, served

pytestmark = pytest.mark.regression(
    "A misspelt crawler was refused, or listed as having no runs, without the crawler that was meant"
)


def test_a_start_of_a_misspelt_crawler_names_the_near_one(
    sqlite_template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database_url = copy_of(sqlite_template, tmp_path)
    monkeypatch.setenv("CRAWLER_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("CRAWLER_DATABASE__URL", database_url)
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    sentence = "there is no crawler 'bookshp' in the catalogue; did you mean 'bookshop'?"
    with served_scheduler(SmallCluster(), a_catalogue(tmp_path)) as scheduler:
        variables = {"CRAWLER_SCHEDULER__URL": scheduler, "CRAWLER_SCHEDULER__TOKEN": TOKEN}
        with served(tmp_path, database_url, **variables) as api, api.client() as http:
            refusal = problem(http.post("/v1/runs", json={"crawler": "bookshp"}), 422)
            assert [(mistake.field, mistake.detail) for mistake in refusal.errors] == [("crawler", sentence)]
            assert problem(http.get("/v1/crawlers/bookshp"), 404).detail == sentence
            monkeypatch.setenv("CRAWLER_REMOTE__TOKEN", api.token(*Scope))
            listed = CliRunner().invoke(main, ["--api", api.url, "list", "--crawler", "bookshp"])
            unlike = CliRunner().invoke(main, ["--api", api.url, "list", "--crawler", "zebra"])
            started = CliRunner().invoke(main, ["--api", api.url, "run", "bookshp", "--detach"])
        assert listed.stdout.endswith("No such runs; did you mean 'bookshop'?\n")
        assert unlike.stdout.endswith("No such runs.\n")
        assert (started.exit_code, started.stderr) == (2, f"Error: CRAWLER: {sentence}\n")
