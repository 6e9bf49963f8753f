import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.cli.program import main
from crawler_lifecycle.clusters.ports import LogChunk
from crawler_lifecycle.console.common import plain
from crawler_lifecycle.model.records import RunDetails, RunRecord, RunSummary
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from crawler_lifecycle.runs.client import ApiRuns
from crawler_lifecycle.runs.commands.reading import RunReader
from crawler_lifecycle.runs.ports import FoundRuns
from tests.kit.service.commands import Crawlctl

pytestmark = pytest.mark.regression(
    "A crawl's output went to the terminal as it was: it could clear the screen, set the title, or type an answer"
)

STEERING = "a\x1b]0;title\x07b\x9b2J\x7f\x00\x08c\té"
SHOWN = (
    "a\N{REPLACEMENT CHARACTER}]0;title\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}2J"
    + 3 * "\N{REPLACEMENT CHARACTER}"
    + "c\té"
)


@pytest.fixture(autouse=True)
def _api(run: RunRecord, crawlctl: Crawlctl) -> None:
    """With the first command, there is an API."""
    assert crawlctl("show", str(run.run_id)).exit_code == 0


def output(state: Path, *words: str) -> str:
    """With colours, as on a terminal."""
    result = CliRunner().invoke(main, [*words, "--state", str(state)], color=True)
    assert result.exit_code == 0, result.output
    return result.output


def test_only_tabs_and_ends_of_lines_are_left() -> None:
    everything = "".join(map(chr, range(256)))
    kept = plain(everything).replace("\N{REPLACEMENT CHARACTER}", "")
    assert kept == "\t\n" + "".join(map(chr, (*range(32, 127), *range(160, 256)))).replace("\xad", "[U+00AD]")
    assert plain("one\r\ntwo") == "one\ntwo"


def test_logs(state: Path, run: RunRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = {0: LogChunk(f"{STEERING}\n", 30, ended=True)}
    monkeypatch.setattr(RunReader, "task_log", lambda *asked: chunks.get(asked[3], LogChunk("", 30, ended=True)))
    assert output(state, "logs", str(run.run_id), "--task", "0") == f"{SHOWN}\n"
    assert json.loads(output(state, "logs", str(run.run_id), "--task", "0", "--json"))["line"] == STEERING
    assert f" | {SHOWN}\n" in output(state, "logs", str(run.run_id))


@pytest.mark.parametrize("code", [0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)])
@pytest.mark.long
def test_characters_that_turn_a_line_around_are_shown_as_codes(
    state: Path, run: RunRecord, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    chunks = {0: LogChunk(f"paid {chr(code)}exe.txt\n", 20, ended=True)}
    monkeypatch.setattr(RunReader, "task_log", lambda *asked: chunks.get(asked[3], LogChunk("", 20, ended=True)))
    assert output(state, "logs", str(run.run_id), "--task", "0") == f"paid [U+{code:04X}]exe.txt\n"


STEERS = ("\x1b]", "\x07", "\x9b", "\x7f", "\x00", "\x08")


def test_list(state: Path, run: RunRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = RunSummary.model_validate(run.model_dump()).model_copy(update={"crawler": STEERING, "outcome": STEERING})
    monkeypatch.setattr(RunReader, "find", lambda *_, **__: FoundRuns([listed], None))
    told = output(state, "list")
    assert told.count(SHOWN) == 2
    assert not any(steering in told for steering in STEERS)


def test_progress(state: Path, run: RunRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    details = Control.open(state).runs.show(run.run_id)
    waits = {"waiting_cause": "image_pull", "waiting_message": f"one\n{STEERING}", "look_problem": STEERING}
    over = {"status": RunStatus.COMPLETED, "reason": STEERING}
    seen = [details.model_copy(update={"run": details.run.model_copy(update=each)}) for each in (waits, waits | over)]

    monkeypatch.setattr(ApiRuns, "watch", lambda *_: iter(seen))
    told = output(state, "watch", str(run.run_id))
    assert f"image_pull: one {SHOWN}" in told
    assert told.count(SHOWN) == 3
    assert not any(steering in told for steering in STEERS)


def test_errors(state: Path, run: RunRecord) -> None:
    result = CliRunner().invoke(main, ["show", STEERING.replace("\x00", ""), "--state", str(state)], color=True)
    assert result.exit_code == 3
    assert not any(steering in result.output for steering in STEERS)


def test_show(state: Path, run: RunRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    show = RunReader.show

    def failed(runs: RunReader, asked: int | str) -> RunDetails:
        details = show(runs, asked)
        said = {"status": TaskStatus.FAILED, "log_tail": STEERING, "message": STEERING, "events": [STEERING]}
        return details.model_copy(update={"tasks": [details.tasks[0].model_copy(update=said)]})

    monkeypatch.setattr(RunReader, "show", failed)
    told = output(state, "show", str(run.run_id))
    assert told.count(SHOWN) == 3
    assert not any(steering in told for steering in ("\x1b]", "\x07", "\x9b", "\x7f", "\x00", "\x08"))
    assert "\x1b[" in told  # our own colours
    assert json.loads(output(state, "show", str(run.run_id), "--json"))["tasks"][0]["log_tail"] == STEERING
