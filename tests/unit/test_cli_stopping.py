"""What `stop` and `resume` refuse before anybody is told: one line, a status, nothing changed."""

import pytest

from crawler_lifecycle.contract.records import RunRecord
from tests.commands import Crawlctl
from tests.databases import give_away


@pytest.mark.parametrize("words", [["stop"], ["stop", "--force", "--wait"], ["resume"], ["resume", "--reopen"]])
def test_a_run_of_another_installation_is_refused(
    crawlctl: Crawlctl, run: RunRecord, state_url: str, words: list[str]
) -> None:
    other = give_away(state_url)
    before = crawlctl("show", str(run.run_id), "--json").output
    result = crawlctl(words[0], str(run.run_id), *words[1:])
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert f"run {run.run_id} belongs to installation {other}" in line
    assert crawlctl("show", str(run.run_id), "--json").output == before
