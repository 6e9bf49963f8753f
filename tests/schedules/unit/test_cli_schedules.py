"""A schedule that is typed wrong gets one clear line that names what is wrong, and status 2."""

from datetime import UTC, datetime
from pathlib import Path

import click
import pytest

from crawler_lifecycle.flows.model.definition import FlowDefinition
from crawler_lifecycle.model.flow_states import FlowState
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.schedules.cli.lines import details_lines, list_lines
from crawler_lifecycle.schedules.commands.schedule_commands import ScheduleCommands
from crawler_lifecycle.schedules.model import (
    Occurrence,
    OccurrenceOutcome,
    Overlap,
    Pause,
    ScheduleCounts,
    ScheduleDetails,
    SkipReason,
    Triggered,
)
from tests.kit.service.commands import Crawlctl

CREATE = ["schedule", "create", "nightly", "bookshop"]
CRON = ["--cron", "0 3 * * *"]
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (CREATE, "--every: either cron or an interval is needed"),
        ([*CREATE, *CRON, "--every", "5m"], "--every: either"),
        ([*CREATE, "--cron", "0 0 30 2 *"], "never fires"),
        ([*CREATE, "--cron", "30 2 25-31 3 0", "--time-zone", "Europe/Berlin"], "never fires in Europe/Berlin"),
        ([*CREATE, "--cron", "61 3 * * *"], "minute"),
        ([*CREATE, "--cron", ""], "five fields"),
        ([*CREATE, *CRON, "--jitter", "-5s"], "duration"),
        ([*CREATE, *CRON, "--jitter", "-5"], "duration"),
        ([*CREATE, *CRON, "--jitter", "999999d"], "--jitter: "),
        ([*CREATE, *CRON, "--missed-window", "5s"], "--missed-window: "),
        ([*CREATE, *CRON, "--time-zone", ""], "--time-zone: "),
        ([*CREATE, *CRON, "--time-zone", "Local"], "--time-zone: "),
        ([*CREATE, "--every", "1h", "--time-zone", "Europe/Berlin"], "--time-zone: "),
        ([*CREATE, *CRON, "--overlap", "sometimes"], "--overlap"),
        ([*CREATE, "--every", "0"], "--every: "),
        ([*CREATE, "--every", "1m", "--offset", "1m"], "--offset: "),
        ([*CREATE, *CRON, "--offset", "1m"], "--offset: "),
        ([*CREATE, *CRON, "--tasks", "0"], "--tasks: "),
        (["schedule", "create", "nightly", *CRON], "CRAWLER: either a crawler or a flow"),
        ([*CREATE, *CRON, "--flow", "graph.py"], "CRAWLER: either a crawler or a flow"),
        (["schedule", "create", "nightly", *CRON, "--flow", "graph.py", "--tasks", "3"], "--tasks: is for a run"),
        (["schedule", "create", "nightly", *CRON, "--flow", "graph.py", "--arg", "a=b"], "--arg: is for a run"),
        (["schedule", "create", "nightly", *CRON, "--flow", "graph.py"], "graph.py: no such file"),
        ([*CREATE, *CRON, "--arg", "site"], "name=value"),
        (["schedule", "create", "a b", "bookshop", *CRON], "SCHEDULE: "),
        (["schedule", "create", "", "bookshop", *CRON], "SCHEDULE: "),
        (["schedule", "create", "x" * 101, "bookshop", *CRON], "SCHEDULE: "),
        (["schedule", "create", "nightly", "", *CRON], "CRAWLER: "),
        (["schedule", "show", "nightly", "--last", "-1"], "--last"),
        (["schedule", "backfill", "nightly"], "--from"),
        (["schedule", "backfill", "nightly", "--from", "yesterday"], "--from"),
    ],
)
def test_bad_input_is_named_and_nothing_is_made(
    crawlctl: Crawlctl, tmp_path: Path, words: list[str], named: str
) -> None:
    result = crawlctl(*words)
    assert result.exit_code == 2, result.output
    assert named in result.stderr
    assert "Traceback" not in result.output
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("words", [["list"], ["show", "x"], ["pause", "x"], ["trigger", "x"], ["delete", "x"]])
@pytest.mark.usefixtures("state_url")
@pytest.mark.long
def test_without_temporal_it_is_one_line_and_status_4(
    crawlctl: Crawlctl, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    result = crawlctl("schedule", *words)
    assert result.exit_code == 4, result.output
    assert "Temporal does not answer at 127.0.0.1:1" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.usefixtures("state_url")
def test_a_trigger_of_which_nothing_is_known_yet_is_told_as_one(
    crawlctl: Crawlctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def trigger(_: ScheduleCommands, schedule_id: str) -> Triggered:
        return Triggered(schedule_id=schedule_id, outcome=OccurrenceOutcome.ASKED)

    monkeypatch.setattr(ScheduleCommands, "trigger", trigger)
    result = crawlctl("schedule", "trigger", "nightly")
    assert result.exit_code == 0, result.output
    assert result.output == ("schedule nightly: triggered; `crawlctl schedule show` shows the outcome later\n")


def a_schedule() -> ScheduleDetails:
    return ScheduleDetails(
        schedule_id="nightly",
        crawler="bookshop",
        cron=["0 3 * * *"],
        every_seconds=None,
        offset_seconds=0,
        time_zone="Europe/Berlin",
        jitter_seconds=300,
        paused=True,
        next_at=[],
        last_started_at=NOON,
        run=RunRequest(crawler="bookshop", arguments={"site": "x"}, settings={"DELAY": "2"}),
        overlap=Overlap.REPLACE,
        missed_window_seconds=86400,
        created_at=NOON,
        note="",
        pauses=[Pause(since=NOON, actor="ann", reason="rebuilt")],
        counts=ScheduleCounts(started=3, skipped_overlap=2, skipped_missed_window=1, queued=0),
        open_workflows=["crawl-nightly-2026-11-20T11:00:00Z"],
        occurrences=[
            Occurrence(
                at=NOON, outcome=OccurrenceOutcome.SKIPPED, reason=SkipReason.PAUSED, detail="paused by ann: rebuilt"
            ),
            Occurrence(at=NOON, outcome=OccurrenceOutcome.STARTED, workflow_id="w"),
        ],
    )


def test_a_schedule_as_text_says_why_an_occurrence_was_skipped() -> None:
    details = a_schedule()
    text = click.unstyle("\n".join([*details_lines(details), *list_lines([details], NOON)]))
    for words in (
        "0 3 * * * Europe/Berlin, jitter 5m00s",
        "since 2026-11-20T12:00:00Z, by ann: rebuilt",
        "2 because of overlap, 1 too late",
        "2026-11-20T12:00:00Z  skipped   paused  paused by ann: rebuilt",
        "workflow w",
        "site=x",
        "DELAY=2",
    ):
        assert words in text


def test_a_schedule_of_flows_as_text_names_the_flows() -> None:
    started = Occurrence(
        at=NOON, outcome=OccurrenceOutcome.STARTED, workflow_id="w", flow_id="nightly-1", flow_state=FlowState.DISCARDED
    )
    flows = {"crawler": None, "run": None, "flow_id": "shops", "flow": FlowDefinition(id="shops")}
    details = a_schedule().model_copy(update={**flows, "occurrences": [started]})
    text = click.unstyle("\n".join([*details_lines(details), *list_lines([details], NOON)]))
    assert "started   flow nightly-1 discarded" in text
    assert "schedule nightly  flow shops  paused" in text
    without = click.unstyle("\n".join(details_lines(details.model_copy(update={"occurrences": []}))))
    assert without.endswith("crawlctl flow list --family nightly")
    triggered = details.model_copy(update={"occurrences": [], "other_starts": [started]})
    assert click.unstyle("\n".join(details_lines(triggered))).endswith(
        "Starts by a trigger, a backfill or earlier rules\n  2026-11-20T12:00:00Z  started   flow nightly-1 discarded"
    )


def test_starts_without_an_occurrence_are_explained() -> None:
    """`started 3`, and below it `Occurrences: none yet`: they came by a trigger and a backfill. (D10)"""
    details = a_schedule().model_copy(update={"occurrences": []})
    assert click.unstyle("\n".join(details_lines(details))).endswith(
        "Occurrences\n  none was due by the present rules\n"
        "  the 3 starts came by a trigger, a backfill or earlier rules: crawlctl list --crawler bookshop"
    )
    counts = ScheduleCounts(started=0, skipped_overlap=0, skipped_missed_window=0, queued=0)
    fresh = details.model_copy(update={"counts": counts})
    assert list(details_lines(fresh))[-1] == "  none was due by the present rules"


def test_only_requested_occurrences_are_said_to_be_missing() -> None:
    """`--last 0` requests none, and `--before` says nothing about later ones: both were told that none was due."""
    details = a_schedule().model_copy(update={"occurrences": []})
    assert "ccurrence" not in "\n".join(details_lines(details, with_occurrences=False))
    assert list(details_lines(details, before=NOON))[-1] == (
        "  none was due before 2026-11-20T12:00:00Z by the present rules"
    )
