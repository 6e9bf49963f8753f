"""What `list`, `show` and `db upgrade` say of a database, and how they fail."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from crawler_lifecycle.cli.program import main
from crawler_lifecycle.contract.records import RunRecord
from crawler_lifecycle.control.reading import RunReader
from crawler_lifecycle.ports import LogChunk
from tests.commands import SECRET, Crawlctl


def test_list_shows_a_run_on_a_line(crawlctl: Crawlctl, run: RunRecord) -> None:
    header, line = crawlctl("list").output.splitlines()
    assert header.split()[:3] == ["RUN", "CRAWLER", "STATUS"]
    assert line.split()[:3] == [str(run.run_id), "bookshop", "INITIALIZING"]
    assert "3 QUEUED" in line
    assert "\x1b" not in line


def test_list_filters_and_pages(crawlctl: Crawlctl, run: RunRecord) -> None:
    listed = [json.loads(crawlctl("list", "--json", *options).output) for options in ([], ["--status", "failed"])]
    assert [[each["run_id"] for each in page] for page in listed] == [[run.run_id], []]
    assert json.loads(crawlctl("list", "--json", "--before", str(run.run_id)).output) == []


@pytest.mark.parametrize("name", ["run_id", "run_uid"])
def test_show_takes_either_name_of_a_run(crawlctl: Crawlctl, run: RunRecord, name: str) -> None:
    shown = json.loads(crawlctl("show", str(getattr(run, name)), "--json").output)
    assert shown["run"]["run_uid"] == run.run_uid
    assert [task["task"] for task in shown["tasks"]] == [0, 1, 2]


def test_show_tells_everything_that_people_need(crawlctl: Crawlctl, run: RunRecord) -> None:
    text = crawlctl("show", str(run.run_id)).output
    for word in (run.run_uid, "crawl-bookshop-1", "site=here", "Ada", "task 0 (main)", "Exports", "Log"):
        assert word in text


@pytest.mark.parametrize("name", ["999", "1fb52c80-6a0c-4d34-8ed0-6b1f4a0a8a6e", "not-a-run", "٠"])
def test_a_run_that_is_not_there_is_status_3(crawlctl: Crawlctl, run: RunRecord, name: str) -> None:
    result = crawlctl("show", name)
    assert result.exit_code == 3
    assert "Traceback" not in result.output


@pytest.mark.parametrize("words", [["list"], ["show", "1"], ["watch", "1"], ["logs", "1"], ["export", "1"]])
def test_without_a_database_every_reader_says_what_to_do(crawlctl: Crawlctl, state: Path, words: list[str]) -> None:
    result = crawlctl(*words)
    assert result.exit_code == 4
    assert len(result.stderr.splitlines()) == 1
    assert "crawlctl db upgrade" in result.stderr
    assert not state.exists()


@pytest.mark.parametrize("which", [["--task", "0"], [], ["--json"]])
def test_that_there_is_no_log_is_said_beside_the_log(
    crawlctl: Crawlctl, run: RunRecord, monkeypatch: pytest.MonkeyPatch, which: list[str]
) -> None:
    monkeypatch.setattr(RunReader, "log", lambda *_: LogChunk("", 0, ended=True))
    result = crawlctl("logs", str(run.run_id), *which)
    assert (result.exit_code, result.stdout) == (0, "")
    assert f"crawlctl show {run.run_id}" in result.stderr


def test_a_run_that_goes_on_is_not_exported(crawlctl: Crawlctl, run: RunRecord) -> None:
    result = crawlctl("export", str(run.run_id))
    assert result.exit_code == 6
    assert "INITIALIZING" in result.stderr


def test_list_imports_nothing_heavy(run: RunRecord, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EXPORT__BUCKET", "EXPORT__EVENT_BUS", "NOTICES__PUSHER_APP_ID", "NOTICES__WEBHOOKS"):
        monkeypatch.setenv(f"CRAWLER_{name}", "4711")
    code = (
        "import sys\n"
        "from crawler_lifecycle.cli.program import main\n"
        f"main(['list', '--json', '--state', {str(state)!r}], standalone_mode=False)\n"
        "heavy = {'temporalio', 'fastapi', 'httpx', 'uvicorn', 'alembic', 'psutil', 'kubernetes', 'urllib3', "
        "'boto3', 'botocore', 'pusher'}\n"
        "heavy &= set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)[0]["run_id"] == run.run_id


def every_command(group: click.Group, *above: str) -> Iterator[list[str]]:
    yield list(above)
    for name, command in group.commands.items():
        yield from every_command(command, *above, name) if isinstance(command, click.Group) else [[*above, name]]


@pytest.mark.parametrize("command", list(every_command(main)), ids=" ".join)
def test_every_command_explains_itself(command: list[str]) -> None:
    result = CliRunner().invoke(main, [*command, "--help"])
    assert result.exit_code == 0
    is_only_a_group = "Commands:" in result.output and command != ["limits"]
    assert ("--json" in result.output) is not is_only_a_group


def test_what_a_crawler_is_given_in_its_environment_is_not_shown(crawlctl: Crawlctl, run: RunRecord) -> None:
    for words in (["show", str(run.run_id)], ["show", str(run.run_id), "--json"]):
        assert SECRET not in crawlctl(*words).output
    shown = json.loads(crawlctl("show", str(run.run_id), "--json").output)
    assert shown["run"]["entry"]["environment"] == {"TOKEN": "***"}
    assert run.entry.environment == {"TOKEN": SECRET}, "its jobs get it"
