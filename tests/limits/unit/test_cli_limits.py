"""Limits and pauses by `crawlctl`, on a database, and how a run in line looks as text."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.model.limits import LimitRecord
from crawler_lifecycle.model.records import Place, RunDetails, RunRecord
from crawler_lifecycle.model.requests import KeptRequest
from crawler_lifecycle.model.states import Intent, RunStatus, TaskStatus
from crawler_lifecycle.runs.cli.details_lines import details_lines
from crawler_lifecycle.runs.cli.list_lines import list_lines
from crawler_lifecycle.runs.cli.requests import make_request
from crawler_lifecycle.runs.cli.screen import progress_lines, situation
from tests.kit.data.databases import ref_to
from tests.kit.data.shown import NOW, a_run
from tests.kit.service.commands import Crawlctl

SITE = "label:site:example.com"


@pytest.fixture
def upgraded(crawlctl: Crawlctl, state_url: str) -> Crawlctl:
    assert state_url
    return crawlctl


def records(crawlctl: Crawlctl, *words: str) -> dict[str, LimitRecord]:
    result = crawlctl(*words, "--json")
    assert result.exit_code == 0, result.output
    return {record["scope"]: LimitRecord.model_validate(record) for record in json.loads(result.stdout)}


def test_values_are_set_and_taken_away_one_by_one(upgraded: Crawlctl) -> None:
    assert records(upgraded, "limits")["installation"].tasks == 1000
    set_site = ("limits", "set", "--label", "site:example.com", "--allow-unknown")
    site = records(upgraded, *set_site, "--runs", "2", "--weight", "3", "--actor", "ann")[SITE]
    assert (site.runs, site.tasks, site.weight, site.changed_by) == (2, None, 3, "ann (token embedded)")
    site = records(upgraded, *set_site, "--tasks", "8", "--runs", "none")[SITE]
    assert (site.runs, site.tasks, site.weight) == (None, 8, 3)
    assert site.changed_by not in (None, "ann (token embedded)"), "the login name"
    books = records(upgraded, "limits", "set", "--crawler", "books", "--runs", "1", "--allow-unknown")["crawler:books"]
    assert books.runs == 1
    whole = records(upgraded, "limits", "set", "--tasks", "500")["installation"]
    assert (whole.tasks, whole.runs) == (500, None)
    assert records(upgraded, "limits", "set", "--tasks", "none")["installation"].tasks == 1000, "the setting's"


def test_options_before_the_word_set_count(upgraded: Crawlctl, state: Path) -> None:
    result = upgraded("limits", "--json", "set", "--runs", "5")
    assert json.loads(result.stdout)[0]["runs"] == 5


def test_a_pause_has_a_reason_and_an_end(upgraded: Crawlctl) -> None:
    site = ("--label", "site:example.com")
    paused = records(
        upgraded, "installation", "pause", *site, "--allow-unknown", "--reason", " rebuilt ", "--actor", "ann"
    )
    assert (paused[SITE].paused_by, paused[SITE].paused_reason) == ("ann (token embedded)", "rebuilt")
    assert paused["installation"].paused_at is None
    again = records(upgraded, "installation", "pause", *site, "--reason", "still", "--actor", "bob")[SITE]
    assert (again.paused_at, again.paused_reason) == (paused[SITE].paused_at, "still")
    table = upgraded("limits").stdout
    assert f"since {again.paused_at:%Y-%m-%dT%H:%M:%SZ} by bob (token embedded): still" in table
    result = upgraded("installation", "resume")
    assert (result.exit_code, result.stderr) == (3, "Error: the installation is not paused\n")
    assert not any(record.paused_at for record in records(upgraded, "installation", "resume", *site).values())
    assert list(records(upgraded, "limits")) == ["installation"], "nothing is left of the site"
    result = upgraded("installation", "resume", *site)
    assert (result.exit_code, result.stderr) == (3, "Error: label site:example.com is not paused\n")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["limits", "set"], "--runs: expected at least one of"),
        (["limits", "set", "--crawler", "", "--runs", "1"], "--crawler: "),
        (["limits", "set", "--label", "", "--runs", "1"], "--label: "),
        (["limits", "set", "--label", "example.com", "--runs", "1"], "--label: "),
        (["limits", "set", "--label", "a:b", "--crawler", "c", "--runs", "1"], "--label: not together"),
        (["limits", "set", "--runs", "0"], "--runs: "),
        (["limits", "set", "--runs", "-1"], "--runs: "),
        (["limits", "set", "--runs", "many"], "'many' is neither a number nor `none`"),
        (["limits", "set", "--tasks", "1"], "--tasks: "),
        (["limits", "set", "--weight", "2"], "--weight: only a label"),
        (["limits", "set", "--label", "a:b", "--weight", "1001"], "--weight: "),
        (["installation", "pause"], "--reason"),
        (["installation", "pause", "--reason", " "], "--reason: "),
        (["installation", "pause", "--reason", "x", "--crawler", ""], "--crawler: "),
        (["installation", "pause", "--reason", "x", "--label", ""], "--label: "),
        (["installation", "resume", "--crawler", ""], "--crawler: "),
        (["installation", "resume", "--label", ""], "--label: "),
        (["run", "books", "--label", "example.com"], "--label"),
        (["run", "books", "--label", ""], "--label"),
        (["run", "books", "--priority", "101"], "--priority: "),
        (["schedule", "create", "nightly", "books", "--every", "1h", "--label", "x"], "--label"),
    ],
)
@pytest.mark.long
def test_bad_input_is_named_and_nothing_is_made(upgraded: Crawlctl, words: list[str], named: str) -> None:
    result = upgraded(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: ")
    assert named in line
    (installation,) = json.loads(upgraded("limits", "--json").stdout)
    assert (installation["changed_at"], installation["paused_at"]) == (None, None)


def test_labels_and_priority_are_part_of_a_request() -> None:
    request = make_request("books", (), {"labels": ("site:a.b", "tenant:acme"), "priority": -5})
    assert (request.labels, request.priority) == (["site:a.b", "tenant:acme"], -5)
    plain = make_request("books", (), {"labels": (), "priority": None})
    assert (plain.labels, plain.priority) == ([], None)
    with pytest.raises(BadInput, match="priority"):
        make_request("books", (), {"labels": (), "priority": 1000})


IN_LINE: dict[str, Any] = {
    "waiting_cause": "admission", "waiting_message": "label site:example.com is at its limit of 1 run",
    "waiting_since": NOW, "held_by": SITE,
}  # fmt: skip
PERMIT = "queued: label site:example.com is at its limit of 1 run, place 3 of 17, since 2026-03-01T12:00:00Z"


def in_line(status: RunStatus = RunStatus.INITIALIZING, **more: Any) -> RunDetails:
    details = a_run(status, TaskStatus.QUEUED, **IN_LINE | more)
    return details.model_copy(update={"place": Place(number=3, length=17)})


def lines_of(details: RunDetails) -> list[str]:
    return [" ".join(click.unstyle(line).split()) for line in details_lines(details, NOW)]


def test_a_run_in_line_says_what_holds_it_and_its_place() -> None:
    details = in_line()
    assert situation(details) == PERMIT
    assert PERMIT.replace(":", "", 1) in lines_of(details)
    assert any(PERMIT in line for line in progress_lines(details, NOW, 3))
    line = list(list_lines([details.run], NOW))[1]
    assert "queued: label site:example.com is at its limit of 1 run" in line


def test_a_run_that_was_reopened_after_its_main_job_says_what_holds_it() -> None:
    """The run is PROCESSING, and showed neither cause nor place."""
    details = in_line(RunStatus.PROCESSING, started_at=NOW)
    assert situation(details) == PERMIT
    assert PERMIT.replace(":", "", 1) in lines_of(details)
    assert not any(line.startswith("child tasks") for line in lines_of(details))


def test_a_paused_run_in_line_says_so() -> None:
    paused = in_line(
        waiting_cause="paused", waiting_message="the installation is paused: moved", held_by="installation"
    )
    said = "queued the installation is paused: moved, place 3 of 17, since"
    assert any(line.startswith(said) for line in lines_of(paused))


def test_held_child_tasks_name_the_scope_and_a_run_that_is_over_names_none() -> None:
    begun: dict[str, Any] = {"admitted_at": NOW, "held_by": SITE, "started_at": NOW}
    details = a_run(RunStatus.PROCESSING, TaskStatus.RUNNING, TaskStatus.QUEUED, **begun)
    child = details.tasks[1].model_copy(update={"cause": "admission"})
    shown = lines_of(details.model_copy(update={"tasks": [details.tasks[0], child]}))
    assert "child tasks held by a limit or a pause of label site:example.com" in shown
    assert any("waits for a place (limit of the installation, a crawler or a label)" in line for line in shown)
    over = a_run(RunStatus.COMPLETED, TaskStatus.SUCCEEDED, **begun)
    assert not any("site:example.com" in line for line in lines_of(over))


def test_a_run_that_has_its_permit_or_is_stopped_is_not_in_line() -> None:
    begun = a_run(RunStatus.INITIALIZING, TaskStatus.PENDING, held_by=SITE, admitted_at=NOW)
    assert situation(begun) == "waits for the main job"
    assert not any("site:example.com" in line for line in lines_of(begun))
    ended = in_line(RunStatus.FAILED)
    for stopped in (in_line(intent=Intent.STOP), in_line(RunStatus.STOPPING, intent=Intent.STOP), ended):
        assert "queued" not in str(situation(stopped))
        assert not any(line.startswith("queued") for line in (*lines_of(stopped), *list_lines([stopped.run], NOW)))


def test_settings_labels_and_priority_are_shown_where_they_are_given() -> None:
    given: dict[str, Any] = {"labels": ["site:example.com", "tenant:acme"], "settings": {"DELAY": "2", "AGENT": "a"}}
    request = KeptRequest(crawler="shop", priority=7, **given)
    shown = lines_of(a_run(RunStatus.PROCESSING, TaskStatus.RUNNING, request=request, priority=7))
    assert {"settings DELAY=2 AGENT=a", "labels site:example.com, tenant:acme", "priority 7"} <= set(shown)
    plain = lines_of(a_run(RunStatus.PROCESSING, TaskStatus.RUNNING))
    assert not any(line.startswith(("settings", "labels", "priority")) for line in plain)


def test_the_table_counts_what_runs_and_what_waits(run: RunRecord, crawlctl: Crawlctl, state_url: str) -> None:
    """One run holds the installation's only permit, and the next run is in line behind it."""
    assert crawlctl("limits", "set", "--runs", "1").exit_code == 0
    database = Database(state_url, pool_size=2)
    try:
        store = SqlStore(database)
        assert store.claims.claim_main(ref_to(run), "test", timedelta(seconds=60))
        (first,) = records(crawlctl, "limits").values()
        assert (first.runs_begun, first.tasks_in_cluster, first.places_kept, first.runs_held) == (1, 1, 1, 0)
    finally:
        database.close()
    header, line = crawlctl("limits").stdout.splitlines()
    assert header.split("  ")[0] == "SCOPE"
    assert line.split() == ["installation", "1/1", "1/1000", "1", "-", "0", "-"]
