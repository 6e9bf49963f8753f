"""What is typed wrong gets one clear line that names it, and status 2."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from crawler_lifecycle.assembly.parts import NO_SERVICE
from crawler_lifecycle.cli.program import main
from crawler_lifecycle.console.common import Duration, KeyValue
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.model.states import ListedStatus, Report, Trigger
from crawler_lifecycle.runs.cli.reading import STATUSES
from crawler_lifecycle.runs.cli.requests import REPORTS, make_request

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
        (
            ["run", "bookshop", "--label", "a:b", "--label", "0:"],
            "--label: expected a kind, a colon and a value without blanks, such as site:example.com "
            "(the kind: small letters, digits and . _ -), not '0:'",
        ),
        (["limits", "pause", "--crawler", "x"], "or `crawlctl schedule pause`? (see `main limits --help`)"),
        (["schedule", "run"], "No such command 'run'. Did you mean `crawlctl run` or `crawlctl flow run`?"),
        (["run", "bookshop", "--grace", "15"], "15 has no unit: say 15s, 15m, 15h or 15d"),
        (["schedule", "create", "night", "bookshop", "--every", "15"], "15 has no unit: say 15s, 15m, 15h or 15d"),
        (["schedule", "create", "a night", "bookshop", "--every", "15m"], "SCHEDULE: expected a name such as nightly"),
        (["run", ""], "CRAWLER: "),
        (["run", "x" * 200], "CRAWLER: "),
        (["run", "book\x07shop"], "CRAWLER: "),
        (
            ["run", "bookshop", "--tasks", "0", "--grace", "0s"],
            "--tasks: expected at least 1, not 0; --grace: expected",
        ),
        (["run", "bookshop", "--arg", "a=x\0y"], "zero byte"),
        (["run", "bookshop", "--trigger", "scheduled"], "'manual', 'api'"),
        (["list", "--status", "NEARLY"], "--status"),
        (["flow", "list", "--status", "NEARLY"], "--status"),
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


IN_BOTH_PLACES = [
    ["--state", "FOLDER", "--json", "list"],
    ["list", "--state", "FOLDER", "--json"],
    ["--json", "list", "--state", "FOLDER"],
    ["--state", "FOLDER", "flow", "--json", "list"],
    ["flow", "--state", "FOLDER", "list", "--json"],
    ["limits", "--json", "set", "--state", "FOLDER", "--runs", "2"],
    ["--state", "elsewhere", "list", "--state", "FOLDER", "--json"],
]


@pytest.mark.parametrize("words", IN_BOTH_PLACES, ids=" ".join)
def test_the_standard_options_stand_before_a_command_or_after_it(words: list[str], tmp_path: Path) -> None:
    """`--state` and `--json` were accepted only after a command, `--api` only before it."""
    folder = str(tmp_path / "state")
    result = CliRunner().invoke(main, [folder if word == "FOLDER" else word for word in words])
    assert result.exit_code == 4, result.output
    assert f"start a stack on {folder} with" in json.loads(result.stderr)["message"]


@pytest.mark.parametrize(
    "words", [["--api", "URL", "list"], ["list", "--api", "URL"], ["flow", "--api", "URL", "list"]]
)
def test_an_api_is_named_before_a_command_or_after_it(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that is none exited with 4, as if the installation were away."""
    monkeypatch.delenv("CRAWLER_REMOTE__TOKEN", raising=False)
    for url, status, said in (
        ("ftp://crawler.example", 2, "--api: expected the API's address"),
        ("https://crawler.example", 4, "a token for the API is needed"),
    ):
        result = CliRunner().invoke(main, [url if word == "URL" else word for word in words])
        assert result.exit_code == status
        assert said in result.stderr


@pytest.mark.parametrize("words", [["--api", "https://a.example", "doctor"], ["doctor", "--api", "https://a.example"]])
def test_a_command_on_the_installation_itself_refuses_an_api(words: list[str]) -> None:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert "`doctor` works on the installation itself" in result.stderr


def test_the_state_of_the_demo_is_its_own(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["--state", str(tmp_path), "demo"])
    assert result.exit_code == 2
    assert "its state is temporary" in result.stderr


def test_a_name_of_a_token_that_is_taken_has_a_status_of_its_own(crawlctl: Crawlctl) -> None:
    """The status was 2, as if the command line were wrong."""
    assert crawlctl("token", "create", "reader").exit_code == 0
    again = crawlctl("token", "create", "reader")
    assert (again.exit_code, again.stdout) == (6, "")
    assert "there is a token named reader already" in again.stderr


def test_without_a_command_there_is_help() -> None:
    for words in ([], ["schedule"]):
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 2
        assert "Commands:" in result.output


def test_a_report_is_a_field_of_the_request() -> None:
    assert make_request("shop", (), {"report": None}).report is Report.ALL
    assert make_request("shop", (), {"report": "end"}).report is Report.END


def test_the_words_of_options_are_those_of_the_contract() -> None:
    assert tuple(Report) == REPORTS
    assert tuple(ListedStatus) == STATUSES


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


def test_where_the_stack_has_ended_doctor_names_the_service_that_is_missing(crawlctl: Crawlctl) -> None:
    assert crawlctl("db", "upgrade").exit_code == 0
    checks = json.loads(crawlctl("doctor", "--json").stdout)
    assert [check["line"] for check in checks if check["part"] == "scheduler service"] == [NO_SERVICE]
