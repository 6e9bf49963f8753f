"""What `list`, `show` and `db upgrade` say of a database, and how they fail."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.cli.program import main
from crawler_lifecycle.clusters.ports import LogChunk
from crawler_lifecycle.console.failures import _next_command
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.model.records import RunRecord, TaskRecord
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.runs.commands.reading import RunReader
from tests.kit.data.databases import ref_to
from tests.kit.service.commands import SECRET, Crawlctl


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


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("show 999", "list"),
        ("watch seven", "list"),
        ("logs 1 --task 9", "show 1"),
        ("export 1", "show 1"),
        ("flow show nobody", "flow list"),
    ],
)
def test_a_failure_names_the_command_that_helps(crawlctl: Crawlctl, run: RunRecord, words: str, hint: str) -> None:
    result = crawlctl(*words.split())
    assert (result.exit_code in (3, 6), f"`crawlctl {hint}" in result.stderr) == (True, True), result.output


def test_an_unknown_crawler_names_the_list_of_crawlers() -> None:
    unknown = BadInput("crawler", "there is no crawler 'nosuch' in the catalogue")
    assert _next_command(unknown) == " (see `crawlctl crawlers`)"
    assert _next_command(BadInput("crawler", "must not be blank")) == ""


@pytest.mark.parametrize("words", [["list"], ["show", "1"], ["watch", "1"], ["logs", "1"], ["export", "1"]])
def test_without_an_api_every_reader_says_what_to_do(crawlctl: Crawlctl, state: Path, words: list[str]) -> None:
    result = crawlctl(*words)
    assert result.exit_code == 4
    assert len(result.stderr.splitlines()) == 1
    assert "no HTTP API is known" in result.stderr
    assert not state.exists()


@pytest.mark.parametrize("which", [["--task", "0"], [], ["--json"]])
def test_that_there_is_no_log_is_said_beside_the_log(
    crawlctl: Crawlctl, run: RunRecord, monkeypatch: pytest.MonkeyPatch, which: list[str]
) -> None:
    monkeypatch.setattr(RunReader, "task_log", lambda *_: LogChunk("", 0, ended=True))
    result = crawlctl("logs", str(run.run_id), *which)
    assert (result.exit_code, result.stdout) == (0, "")
    assert f"crawlctl show {run.run_id}" in result.stderr


@pytest.mark.long
def test_a_run_that_goes_on_is_not_exported(crawlctl: Crawlctl, run: RunRecord) -> None:
    result = crawlctl("export", str(run.run_id))
    assert result.exit_code == 6
    assert "INITIALIZING" in result.stderr


def test_list_imports_nothing_heavy(crawlctl: Crawlctl, run: RunRecord, state: Path) -> None:
    assert crawlctl("list").exit_code == 0  # with this, there is an API
    code = (
        "import sys\n"
        "from crawler_lifecycle.cli.program import main\n"
        f"main(['list', '--json', '--state', {str(state)!r}], standalone_mode=False)\n"
        "heavy = {'temporalio', 'sqlalchemy', 'fastapi', 'uvicorn', 'alembic', 'psutil', 'kubernetes', 'urllib3', "
        "'boto3', 'botocore', 'pusher', 'crawler_lifecycle.flows.client'}\n"
        "heavy &= set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)[0]["run_id"] == run.run_id


def every_command(group: click.Group, *above: str) -> Iterator[list[str]]:
    yield list(above)
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield from every_command(command, *above, name) if isinstance(command, click.Group) else [[*above, name]]


@pytest.mark.parametrize("command", list(every_command(main)), ids=" ".join)
def test_every_command_explains_itself(command: list[str]) -> None:
    result = CliRunner().invoke(main, [*command, "--help"])
    assert result.exit_code == 0
    is_for_shells = command == ["completion"]
    options = () if is_for_shells else ("--json", "--api")
    assert all(option in result.output for option in options), "in front of a command, too"


@pytest.mark.long
def test_what_a_crawler_is_given_in_its_environment_is_not_shown(crawlctl: Crawlctl, run: RunRecord) -> None:
    for words in (["show", str(run.run_id)], ["show", str(run.run_id), "--json"]):
        assert SECRET not in crawlctl(*words).output
    shown = json.loads(crawlctl("show", str(run.run_id), "--json").output)
    assert shown["run"]["entry"]["environment"] == {"TOKEN": "***"}
    assert run.entry.environment == {"TOKEN": SECRET}, "its jobs get it"


def groups(group: click.Group, *above: str) -> Iterator[list[str]]:
    yield list(above)
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from groups(command, *above, name)


@pytest.mark.parametrize("group", list(groups(main)), ids=" ".join)
def test_no_line_of_a_help_is_cut(group: list[str]) -> None:
    """Eleven of the 21 lines ended in an ellipsis: nobody learned what the commands do."""
    result = CliRunner().invoke(main, [*group, "--help"], terminal_width=80)
    _, _, commands = result.output.partition("Commands:")
    assert commands
    assert "..." not in commands


def test_the_runs_that_a_stop_ended_are_listed(crawlctl: Crawlctl, run: RunRecord, state_url: str) -> None:
    """`--status STOPPED` was refused, though page and API list these runs."""
    database = Database(state_url, pool_size=2)
    SqlStore(database).tasks.cancel_queued(ref_to(run), "stopped")
    SqlStore(database).runs.close(ref_to(run), RunStatus.FAILED, "stopped")
    database.close()
    for status, runs in (("STOPPED", [run.run_id]), ("stopped", [run.run_id]), ("FAILED", [])):
        assert [each["run_id"] for each in json.loads(crawlctl("list", "--status", status, "--json").stdout)] == runs
    assert "STOPPED" in crawlctl("list").stdout


LINES = [f"line {number}" for number in range(50)]
TEXT = "".join(f"{line}\n" for line in LINES)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log of each task, in parts whose ends are within lines."""

    def read(_: RunReader, run_uid: str, task: TaskRecord, offset: int = 0) -> LogChunk:
        start = max(0, len(TEXT) + offset) if offset < 0 else offset
        part = TEXT[start : start + 37]
        return LogChunk(part, start + len(part), ended=start + len(part) >= len(TEXT), read=len(part))

    monkeypatch.setattr(RunReader, "task_log", read)


@pytest.mark.usefixtures("log")
def test_a_log_has_whole_lines_and_a_tail_the_last_of_them(crawlctl: Crawlctl, run: RunRecord) -> None:
    """A line on the border of two parts was printed as two lines."""
    assert crawlctl("logs", str(run.run_id), "--task", "0").stdout.splitlines() == LINES
    for tail, expected in ((1, LINES[-1:]), (20, LINES[-20:]), (1000, LINES)):
        for follow in ([], ["--follow"]):
            words = ["logs", str(run.run_id), "--task", "0", "--tail", str(tail), *follow]
            assert crawlctl(*words).stdout.splitlines() == expected
    lines = crawlctl("logs", str(run.run_id), "--tail", "2").stdout.splitlines()
    assert lines == [f"{task} | {line}" for task in range(3) for line in LINES[-2:]]


@pytest.mark.long
def test_a_reader_that_has_read_enough_is_no_failure(crawlctl: Crawlctl, run: RunRecord, state: Path) -> None:
    """`crawlctl logs 7 | head -1` exited with 1."""
    assert crawlctl("list").exit_code == 0  # with this, there is an API
    code = (
        "import os, sys\n"
        "from crawler_lifecycle.runs.client import ApiRuns\n"
        "from crawler_lifecycle.model.records import LogPart\n"
        "reading, writing = os.pipe()\n"
        "def read(runs, run, task, offset):\n"
        "    if offset == 0: os.dup2(writing, 1); os.close(writing); os.close(reading)\n"
        "    return LogPart(attempt=1, text='a line\\n', offset=offset + 7, ended=False)\n"
        "ApiRuns.log = read\n"
        f"sys.argv = ['crawlctl', 'logs', '{run.run_id}', '--task', '0', '--state', {str(state)!r}]\n"
        "from crawler_lifecycle.cli.__main__ import run\n"
        "run()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("crawlctl list --status ", {"initializing", "stopped"}),
        ("crawlctl --json flow res", {"results", "resume"}),
        ("crawlctl logs 7 --ta", {"--task", "--tail"}),
    ],
)
def test_a_shell_completes_commands_options_and_their_words(line: str, expected: set[str]) -> None:
    words = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    done = CliRunner(env=words | {"_CRAWLCTL_COMPLETE": "bash_complete"}).invoke(main, [], prog_name="crawlctl")
    assert {word.partition(",")[2] for word in done.output.splitlines()} >= expected
