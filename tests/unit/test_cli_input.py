"""What is typed wrong gets one clear line that names it, and status 2."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from crawler_lifecycle.bootstrap.parts import NO_SERVICE
from crawler_lifecycle.cli.common import Duration, KeyValue
from crawler_lifecycle.cli.program import main
from crawler_lifecycle.cli.requests import REPORTS, make_request
from crawler_lifecycle.contract.states import Report, Trigger
from crawler_lifecycle.errors import BadInput

Crawlctl = Callable[..., Result]


@pytest.fixture
def crawlctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Crawlctl:
    """Runs a command on an installation that has nothing."""
    for name in ("CRAWLER_STATE", "CRAWLER_DATABASE__URL", "TEMPORAL_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    return lambda *words: CliRunner().invoke(main, [*words, "--state", str(tmp_path / "state")])


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["run", "bookshop", "--arg", "site"], "name=value"),
        (["run", "bookshop", "--max-duration", "soon"], "duration"),
        (["run", "bookshop", "--tasks", "0"], "--tasks: "),
        (["run", "bookshop", "--tasks", "-4"], "--tasks: "),
        (["run", "bookshop", "--tasks", "four"], "--tasks"),
        (["run", "bookshop", "--max-parallel", "0"], "--max-parallel: "),
        (["run", "bookshop", "--max-duration", "99999d"], "--max-duration: "),
        (["run", "bookshop", "--allowed-failures", "2"], "--allowed-failures: "),
        (["run", ""], "CRAWLER: "),
        (["run", "x" * 200], "CRAWLER: "),
        (["run", "book\x07shop"], "CRAWLER: "),
        (["list", "--status", "NEARLY"], "--status"),
        (["list", "--limit", "0"], "--limit"),
        (["list", "--before", "-1"], "--before"),
        (["logs", "1", "--task", "-1"], "--task"),
        (["logs", "1", "--task", "x" * 10_000], "not a valid integer"),
        (["stop", "1", "--force", "--because", "I say so"], "--because"),
        (["run", "bookshop", "--grace", "soon\n\x1b[31m"], "--grace"),
        (["run", "bookshop", "--grace", "-5s"], "--grace"),
        (["audit", "--remove-unknown-jobs"], "--repair"),
        (["schedule", "create", "--surprise"], "--surprise"),
        (["token", "create"], "NAME"),
        (["db", "downgrade"], "downgrade"),
        (["show", "1", "2"], "2"),
        (["show"], "RUN"),
        (["shwo", "1"], "shwo"),
        (["--loud", "list"], "--loud"),
    ],
)
def test_bad_input_is_named_and_nothing_is_made(
    crawlctl: Crawlctl, tmp_path: Path, words: list[str], named: str
) -> None:
    result = crawlctl(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: ")
    assert named in line
    assert len(line) < 450
    assert not (tmp_path / "state").exists()


def test_without_a_command_there_is_help() -> None:
    for words in ([], ["schedule"]):
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 2
        assert "Commands:" in result.output


def test_a_report_is_a_field_of_the_request() -> None:
    assert make_request("shop", (), {"report": None}).report is Report.ALL
    assert make_request("shop", (), {"report": "end"}).report is Report.END


def test_the_reports_of_the_command_are_those_of_the_request() -> None:
    assert tuple(Report) == REPORTS


def test_numbers_of_retries_are_one_field_of_the_request() -> None:
    none = {"infrastructure_retries": None, "program_retries": None}
    assert make_request("shop", (), none).retries is None
    retries = make_request("shop", (), none | {"program_retries": 1}).retries
    assert retries is not None
    assert (retries.infrastructure, retries.program) == (2, 1)
    with pytest.raises(BadInput, match=r"retries\.infrastructure"):
        make_request("shop", (), none | {"infrastructure_retries": -1})


def test_a_request_keeps_what_was_typed() -> None:
    options = {"start_limit": 30, "max_duration": None, "tasks": 3, "settings": (("DELAY", "2"),)}
    request = make_request("shop", (("a", "b=c"), ("q", "")), options)
    assert (request.arguments, request.settings) == ({"a": "b=c", "q": ""}, {"DELAY": "2"})
    assert (request.tasks, request.start_limit_seconds, request.max_duration_seconds) == (3, 30, None)
    assert request.trigger is Trigger.MANUAL


@given(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99))
def test_durations_add_up(hours: int, minutes: int, seconds: int) -> None:
    assert Duration().convert(f"{hours}h{minutes}m{seconds}s", None, None) == hours * 3600 + minutes * 60 + seconds


@given(st.text(min_size=1).filter(lambda key: "=" not in key), st.text())
def test_arguments_are_split_at_the_first_equals_sign_only(key: str, value: str) -> None:
    assert KeyValue().convert(f"{key}={value}", None, None) == (key, value)


@pytest.mark.parametrize("words", [["run", "sleeper"], ["crawlers"], ["list"]])
def test_where_no_stack_runs_one_line_says_how_to_get_one(crawlctl: Crawlctl, tmp_path: Path, words: list[str]) -> None:
    result = crawlctl(*words)
    (line,) = result.stderr.splitlines()
    assert (result.exit_code, result.stdout) == (4, "")
    assert f"`crawlctl up --state {tmp_path / 'state'}`" in line


@pytest.mark.parametrize("words", [["run", "sleeper"], ["crawlers"]])
def test_where_the_stack_has_ended_one_line_names_the_service_that_is_missing(
    crawlctl: Crawlctl, tmp_path: Path, words: list[str]
) -> None:
    assert crawlctl("db", "upgrade").exit_code == 0
    (line,) = crawlctl(*words).stderr.splitlines()
    assert line == "Error: " + NO_SERVICE.replace("crawlctl up", f"crawlctl up --state {tmp_path / 'state'}")
    (check,) = [
        check for check in json.loads(crawlctl("doctor", "--json").stdout) if check["part"] == "scheduler service"
    ]
    assert check["line"] == NO_SERVICE
