"""What `stop` and `resume` refuse before anybody is told: one line, a status, nothing changed."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.model.answers import Stopping
from crawler_lifecycle.model.records import RunDetails, RunRecord
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.states import ExportState, Intent, RunStatus
from crawler_lifecycle.runs.client import ApiRuns
from crawler_lifecycle.temporal.engine import Engine
from tests.kit.data.databases import give_away, ref_to
from tests.kit.service.commands import Crawlctl
from tests.kit.service.embedded import CRAWLCTL


@pytest.mark.parametrize("words", [["stop"], ["stop", "--force", "--wait"], ["resume"], ["resume", "--reopen"]])
def test_a_run_of_another_installation_is_refused(
    crawlctl: Crawlctl, run: RunRecord, state_url: str, words: list[str]
) -> None:
    other = give_away(state_url)
    before = crawlctl("show", str(run.run_id), "--json").output
    result = crawlctl(words[0], str(run.run_id), *words[1:])
    assert result.exit_code == 6, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert f"run {run.run_id} belongs to installation {other}" in line
    assert crawlctl("show", str(run.run_id), "--json").output == before


@pytest.mark.parametrize("verb", ["stop", "resume"])
def test_a_run_that_is_over_has_a_status_of_its_own(
    crawlctl: Crawlctl, run: RunRecord, state_url: str, verb: str
) -> None:
    database = Database(state_url, pool_size=2)
    SqlStore(database).tasks.cancel_queued(ref_to(run), "stopped")
    SqlStore(database).runs.close(ref_to(run), RunStatus.FAILED, "stopped")
    with database.transaction() as connection:
        connection.execute(histories.update().values(export_state=ExportState.DONE))
    database.close()
    result = crawlctl(verb, str(run.run_id))
    assert (result.exit_code, result.stdout) == (6, "")
    (line,) = result.stderr.splitlines()
    assert f"run {run.run_id} is over (FAILED, stopped): there is nothing to {verb}" in line


@pytest.mark.parametrize("option", ["actor", "reason"])
@pytest.mark.long
def test_as_much_as_a_command_line_takes_is_one_short_line(
    crawlctl: Crawlctl, run: RunRecord, state: Path, option: str
) -> None:
    """Linux passes a program no word longer than 128 KiB, its final zero byte included: a megabyte never gets here."""
    before = crawlctl("show", str(run.run_id), "--json").output
    longest = "x" * (128 * 1024 - 1 - len(f"--{option}="))
    words = [*CRAWLCTL, "stop", str(run.run_id), "--state", str(state)]
    done = subprocess.run([*words, f"--{option}={longest}"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: --{option}: ")
    assert len(line) < 200
    if sys.platform == "linux":
        with pytest.raises(OSError, match="Argument list too long"):
            subprocess.run([*words, f"--{option}={longest}x"], check=False)
    assert crawlctl("show", str(run.run_id), "--json").output == before


def test_a_stop_that_is_waited_for_tells_programs_the_same_and_then_the_end(
    crawlctl: Crawlctl, run: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two commands whose answers have nothing in common would need two readers."""

    async def told(_: Engine, workflow_id: str, stop: StopRequest) -> str:
        assert (workflow_id, stop.door) == (run.workflow_id, "api")
        return "signal"

    def proved(runs: ApiRuns, run_id: int) -> Iterator[RunDetails]:
        yield runs.show(run_id)

    monkeypatch.setattr(Engine, "stop", told)
    monkeypatch.setattr(ApiRuns, "watch", proved)
    words = ("stop", str(run.run_id), "--json")
    first = Stopping.model_validate_json(crawlctl(*words).stdout)
    assert (first.run_id, first.told) == (run.run_id, "signal")
    answer, end = crawlctl(*words, "--wait").stdout.splitlines()
    assert Stopping.model_validate_json(answer) == first
    assert RunDetails.model_validate_json(end).run.intent is Intent.STOP


def test_a_stop_that_is_waited_for_ends_with_the_end_of_the_run(
    crawlctl: Crawlctl, run: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last line was the proof; `run` ends with status, outcome and reason."""

    async def signal(*_: object) -> str:
        return "signal"

    def over(runs: ApiRuns, run_id: int) -> Iterator[RunDetails]:
        details = runs.show(run_id)
        ended = {"status": RunStatus.FAILED, "reason": "stopped", "outcome": "cancelled"}
        yield details.model_copy(update={"run": details.run.model_copy(update=ended)})

    monkeypatch.setattr(Engine, "stop", signal)
    monkeypatch.setattr(ApiRuns, "watch", over)
    result = crawlctl("stop", str(run.run_id), "--wait")
    first, *_, last = result.stdout.splitlines()
    assert result.exit_code == 0
    assert first == f"Stop requested for run {run.run_id}"
    assert last == f"run {run.run_id} ended STOPPED (outcome cancelled, reason stopped): 3 QUEUED"


def test_a_failed_run_names_the_command_that_reopens_it(crawlctl: Crawlctl, run: RunRecord, state_url: str) -> None:
    database = Database(state_url, pool_size=2)
    SqlStore(database).tasks.cancel_queued(ref_to(run), "stopped")
    SqlStore(database).runs.close(ref_to(run), RunStatus.FAILED, "stopped")
    with database.transaction() as connection:
        connection.execute(histories.update().values(export_state=ExportState.DONE))
    database.close()
    assert f"`crawlctl resume {run.run_id} --reopen --state " in crawlctl("resume", str(run.run_id)).stderr


@pytest.mark.parametrize("is_requested", [True, False])
def test_ctrl_c_in_a_stop_says_what_becomes_of_the_stop(
    crawlctl: Crawlctl, run: RunRecord, monkeypatch: pytest.MonkeyPatch, is_requested: bool
) -> None:
    def request(*_: object, **__: object) -> Stopping:
        if not is_requested:
            raise asyncio.CancelledError
        return Stopping(run_id=run.run_id, run_uid=run.run_uid, intent=Intent.STOP, told="signal")

    def interrupted(runs: ApiRuns, run_id: int) -> Iterator[RunDetails]:
        yield runs.show(run_id)
        raise asyncio.CancelledError

    monkeypatch.setattr(ApiRuns, "stop", request)
    monkeypatch.setattr(ApiRuns, "watch", interrupted)
    result = crawlctl("stop", str(run.run_id), "--wait")
    assert result.exit_code == 130, result.output
    number = run.run_id
    words = (
        f"the stop of run {number} continues: `crawlctl watch {number} --state"
        if is_requested
        else f"run {number} may not be stopped: `crawlctl show {number} --state"
    )
    assert words in result.stderr
