"""`crawlctl list` showed the outcome of a run where other commands showed the reason, as if both were the same thing.

The duration of a reopened run counted from its first start, and `crawlctl show` had start times without names.
"""

from datetime import timedelta
from typing import Any

import click
import pytest

from crawler_lifecycle.model.records import RunDetails
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from crawler_lifecycle.runs.cli.details_lines import details_lines, end_lines
from crawler_lifecycle.runs.cli.list_lines import list_lines
from crawler_lifecycle.runs.cli.screen import progress_lines
from tests.kit.data.shown import NOW, a_run

pytestmark = pytest.mark.regression(
    "`crawlctl list` showed a run's outcome where other commands showed the reason, as if both were the same"
)

FORCED: dict[str, Any] = {"outcome": "cancel_timeout", "reason": "stopped_forced"}


def forced() -> RunDetails:
    return a_run(RunStatus.FAILED, TaskStatus.STOPPED, finished_at=NOW, **FORCED)


def shown_facts(details: RunDetails) -> dict[str, str]:
    lines = [click.unstyle(line) for line in details_lines(details, NOW)]
    return {line[2:16].strip(): line[16:] for line in lines[1 : lines.index("")]}


def test_list_and_show_have_outcome_and_reason() -> None:
    header, line = (click.unstyle(text) for text in list_lines([forced().run], NOW))
    assert line[header.index("OUTCOME") :].startswith("cancel_timeout ")
    assert line[header.index("REASON") :].startswith("stopped_forced ")
    assert shown_facts(forced()).items() >= FORCED.items()
    ended = click.unstyle(next(end_lines(forced())))
    assert "ended STOPPED (outcome cancel_timeout, reason stopped_forced)" in ended


def test_a_reopened_run_takes_the_time_since_its_reopening() -> None:
    reopened_at, started_at, finished_at = (NOW + timedelta(hours=hours) for hours in (10, 11, 12))
    times: dict[str, Any] = {"begun_at": reopened_at, "started_at": started_at, "finished_at": finished_at}
    details = a_run(RunStatus.COMPLETED, TaskStatus.SUCCEEDED, **times)
    header, line = (click.unstyle(text) for text in list_lines([details.run], NOW))
    assert line[header.index("TOOK") :].startswith("2h00m")
    assert click.unstyle(next(progress_lines(details, NOW, 1))).endswith("2h00m")
    facts = shown_facts(details)
    assert [facts[name] for name in ("created", "reopened", "main started", "finished", "took")] == [
        "2026-03-01T12:00:00Z", "2026-03-01T22:00:00Z", "2026-03-01T23:00:00Z", "2026-03-02T00:00:00Z", "2h00m",
    ]  # fmt: skip
    assert "reopened" not in shown_facts(forced())
