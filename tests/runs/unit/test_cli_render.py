"""How a run looks as text."""

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler_lifecycle.console.words import crawled, duration, moment_text, rfc3339
from crawler_lifecycle.model.crawl_results import CrawlResult
from crawler_lifecycle.model.records import Explanation, LogRecord, RunDetails
from crawler_lifecycle.model.states import ExportState, RunStatus, TaskStatus
from crawler_lifecycle.runs.cli import screen
from crawler_lifecycle.runs.cli.details_lines import details_lines, end_lines
from crawler_lifecycle.runs.cli.list_lines import list_lines
from crawler_lifecycle.runs.cli.screen import change_lines, progress_lines, situation, stage, stop_lines
from crawler_lifecycle.runs.cli.usage import use_words
from tests.kit.data.shown import NOW, a_run, a_task, an_export


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        (a_run(RunStatus.INITIALIZING, TaskStatus.QUEUED), "1/4 initiation"),
        (a_run(RunStatus.INITIALIZING, TaskStatus.PENDING), "2/4 deployment"),
        (a_run(RunStatus.PROCESSING, TaskStatus.RUNNING), "3/4 reconciliation"),
        (a_run(RunStatus.STOPPING, TaskStatus.STOPPING), "stopping"),
        (a_run(RunStatus.FAILED, TaskStatus.FAILED), "4/4 completion"),
    ],
)
def test_the_stage_follows_from_the_record(details: RunDetails, expected: str) -> None:
    assert stage(details) == expected


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        (a_run(RunStatus.INITIALIZING, TaskStatus.PENDING), "waits for the main job"),
        (
            a_run(RunStatus.INITIALIZING, TaskStatus.PENDING, waiting_cause="capacity", waiting_since=NOW),
            "waits for capacity (since 2026-03-01T12:00:00Z)",
        ),
        (a_run(RunStatus.PROCESSING, TaskStatus.RUNNING, TaskStatus.SUCCEEDED), "1 of 2 tasks running"),
        (a_run(RunStatus.STOPPING, TaskStatus.STOPPING, TaskStatus.STOPPED), "waits for the end of 1 of 2 tasks"),
        (a_run(RunStatus.STOPPING, TaskStatus.STOPPED), "waits until its last job is confirmed gone"),
        (a_run(RunStatus.PROCESSING, TaskStatus.SUCCEEDED), "waits for the last look"),
        (a_run(RunStatus.COMPLETED, TaskStatus.SUCCEEDED), None),
        (a_run(RunStatus.COMPLETED, exports=[an_export(ExportState.PENDING)]), "waits for its export (files_ready)"),
        (a_run(RunStatus.COMPLETED, exports=[an_export(ExportState.FAILED)]), None),
    ],
)
def test_what_is_waited_for(details: RunDetails, expected: str | None) -> None:
    assert situation(details) == expected


def test_progress_is_of_bounded_height_and_tells_the_next_look() -> None:
    details = a_run(RunStatus.PROCESSING, *[TaskStatus.RUNNING] * 500, started_at=NOW)
    lines = list(progress_lines(details, NOW, most_tasks=10, verbose=True))
    assert len(lines) < 20
    assert any("next look in 1m00s (2026-03-01T12:01:00Z)" in line for line in lines)
    assert "500 RUNNING" in lines[-1]


def test_only_what_changed_is_printed_again() -> None:
    before = a_run(RunStatus.PROCESSING, TaskStatus.RUNNING, TaskStatus.RUNNING, started_at=NOW)
    after = before.model_copy(update={"tasks": [before.tasks[0], a_task(1, TaskStatus.SUCCEEDED)]})
    assert list(change_lines(before, before)) == []
    (line,) = change_lines(before, after)
    assert "task 1" in click.unstyle(line)
    assert "SUCCEEDED" in line


def test_why_a_run_failed_is_in_every_view_of_it() -> None:
    """The cause stood in the log of a task only, two commands away."""
    because = Explanation(text="task 0 (the main job) FAILED with exit code 2: the argument `site` is missing")
    details = a_run(RunStatus.FAILED, TaskStatus.FAILED, reason="main_job_failed", explanation=because)
    for lines in (
        details_lines(details, NOW),
        progress_lines(details, NOW, 3),
        change_lines(None, details),
        list_lines([details.run], NOW),
    ):
        assert sum("main job) FAILED with exit code 2: the argument" in line for line in lines) == 1


def test_what_a_run_has_crawled_is_in_its_line_and_its_details() -> None:
    account: dict[str, Any] = {
        "outcome": "banned",
        "stats": {"items": 1200, "bytes": 51_234_567, "x": 1},
        "result": {"next": 7},
    }
    details = a_run(RunStatus.COMPLETED, TaskStatus.SUCCEEDED, **account)
    details.tasks[0] = details.tasks[0].model_copy(
        update={"crawl_result": CrawlResult(outcome="banned", stats={"pages": 2}, result=[1])}
    )
    header, line = (click.unstyle(text) for text in list_lines([details.run], NOW))
    assert line[header.index("OUTCOME") :].startswith("banned ")
    assert line[header.index("CRAWLED") :].startswith("1,200 items, 51.2 MB ")
    shown = [" ".join(click.unstyle(text).split()) for text in details_lines(details, NOW)]
    assert {
        "outcome banned",
        "crawled 1,200 items, 51.2 MB",
        "Other stats",
        "x: 1",
        'result {"next": 7}',
        "said: banned, 2 pages, [1]",
    } <= set(shown)


def test_what_a_run_has_used_is_in_its_details() -> None:
    used: dict[str, Any] = {
        "task_seconds": 90 * 60.0,
        "cpu_seconds": 45.2,
        "memory_gib_seconds": 0.4,
        "archived_bytes": 1_234_567,
    }
    words = use_words(a_run(RunStatus.COMPLETED, **used).run)
    assert words == "1h30m of tasks, 45s of CPUs, 0s of GiB of memory, 1.23 MB archived"
    assert use_words(a_run(RunStatus.FAILED, task_seconds=7.0).run) == "7s of tasks"
    assert use_words(a_run(RunStatus.PROCESSING).run) is None


def test_a_completed_run_with_another_outcome_is_no_green_line() -> None:
    """`banned` stood beside a green COMPLETED."""
    banned, finished = (
        a_run(RunStatus.COMPLETED, TaskStatus.SUCCEEDED, outcome=word) for word in ("banned", "finished")
    )
    for width in (None, 80):
        header, odd, usual = list_lines([banned.run, finished.run], NOW, width)
        assert click.style("COMPLETED", fg="yellow") in odd
        assert click.style("COMPLETED", fg="green") in usual
        assert click.unstyle(odd)[header.index("OUTCOME") :].startswith("banned")
    for lines in (details_lines, lambda details, now: progress_lines(details, now, 3)):
        assert click.style("COMPLETED", fg="yellow") in next(iter(lines(banned, NOW)))
    assert click.style("COMPLETED", fg="yellow") in next(end_lines(banned))


def test_a_result_that_does_not_count_is_a_line_of_its_task() -> None:
    details = a_run(RunStatus.COMPLETED, TaskStatus.SUCCEEDED)
    details.tasks[0] = details.tasks[0].model_copy(update={"events": ["deployed", "CRAWL_RESULT not used: it is late"]})
    lines = [click.unstyle(line).strip() for line in details_lines(details, NOW)]
    assert lines.count("CRAWL_RESULT not used: it is late") == 1
    assert "deployed" not in lines


@pytest.mark.parametrize(
    ("stats", "expected"),
    [
        (None, ""),
        ({"other": 1}, ""),
        ({"errors": 0, "items": 0}, "0 items, 0 errors"),
        ({"bytes": 999}, "999 B"),
        ({"bytes": 999_999}, "1 MB"),
        ({"bytes": 2.5e15, "pages": 1.5}, "1.5 pages, 2,500.0 TB"),
    ],
)
def test_sums_are_short(stats: dict[str, float] | None, expected: str) -> None:
    assert crawled(stats) == expected


def test_nothing_is_waited_for_by_a_run_that_is_over() -> None:
    """`show` told of a run that was refused that it waits for deployment_refused."""
    details = a_run(RunStatus.FAILED, TaskStatus.FAILED, waiting_cause="deployment_refused", waiting_since=NOW)
    for lines in (details_lines(details, NOW), progress_lines(details, NOW, 3), change_lines(None, details)):
        assert not any("waits for" in line for line in lines)


def test_the_end_of_an_export_is_named_where_there_are_several() -> None:
    ends = [an_export(ExportState.DONE).model_copy(update={"end": end}) for end in (1, 2)]
    once = "\n".join(details_lines(a_run(RunStatus.COMPLETED, exports=ends[:1], end_number=1), NOW))
    twice = "\n".join(details_lines(a_run(RunStatus.COMPLETED, exports=ends, end_number=2), NOW))
    assert "end 1" not in once
    assert twice.index("end 1  files_ready") < twice.index("end 2  files_ready")


@pytest.mark.parametrize(
    ("status", "line"),
    [
        (RunStatus.PROCESSING, "  none yet"),
        (RunStatus.STOPPING, "  none yet"),
        (RunStatus.COMPLETED, "  none"),
        (RunStatus.FAILED, "  none"),
    ],
)
def test_a_run_that_is_over_promises_no_export(status: RunStatus, line: str) -> None:
    """`show` told `none yet` of a FAILED run without exports, as if an export would follow."""
    lines = [click.unstyle(shown) for shown in details_lines(a_run(status, TaskStatus.FAILED), NOW)]
    assert lines[lines.index("Exports") + 1] == line


def test_a_list_lines_up_whatever_the_colours() -> None:
    runs = [a_run(status, TaskStatus.FAILED).run for status in (RunStatus.FAILED, RunStatus.INITIALIZING)]
    header, *rows = [click.unstyle(line) for line in list_lines(runs, NOW)]
    assert {row.index("1 FAILED") for row in rows} == {header.index("TASKS")}


@given(st.sampled_from(RunStatus), st.lists(st.sampled_from(TaskStatus), max_size=5), st.booleans())
def test_every_run_can_be_shown(status: RunStatus, tasks: list[TaskStatus], started: bool) -> None:
    details = a_run(status, *tasks, started_at=NOW if started else None)
    for lines in (details_lines(details, NOW), progress_lines(details, NOW, 3), change_lines(None, details)):
        assert all("\n" not in line and "None" not in line for line in lines)


@given(st.integers(0, 10**7))
def test_a_duration_is_short(seconds: int) -> None:
    assert len(duration(timedelta(seconds=seconds))) <= 8


def test_the_screen_draws_over_what_it_drew(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    shown = screen.Screen()
    shown.show(["a", "b"])
    shown.show(["x" * 50])
    assert capsys.readouterr().out == "\x1b[Ja\nb\n" + "\x1b[2F\x1b[J" + "x" * 19 + "…\n"


def test_an_end_by_force_that_nobody_confirmed_is_told_with_the_stop() -> None:
    details = a_run(RunStatus.FAILED, TaskStatus.STOPPED)
    events = [("force stop", "now"), ("unconfirmed", "tasks 0 may run on"), ("forced", "1 jobs"), ("proved", "nothing")]
    log = [LogRecord(at=NOW, event=event, message=message) for event, message in events]
    told = list(stop_lines(details.model_copy(update={"log": log})))
    assert told[1] == "not confirmed: tasks 0 may run on"
    assert [line.partition(" after")[0] for line in told[2:]] == ["jobs killed", "confirmed stopped"]


def test_a_task_that_succeeded_beside_a_container_that_was_started_again_says_so() -> None:
    details = a_run(RunStatus.COMPLETED, TaskStatus.SUCCEEDED)
    warned = a_task(0, TaskStatus.SUCCEEDED, node="n", restarts=2, events=["proxy was OOMKilled (2 restarts)"])
    shown = list(details_lines(details.model_copy(update={"tasks": [warned]}), NOW))
    assert any("proxy was OOMKilled" in line for line in shown)


@pytest.mark.parametrize(
    ("told", "has_one"),
    [
        ({"log_tail": "page 87"}, True),
        ({"events": ["log not read: the node does not answer"]}, True),
        ({"message": "pod Evicted"}, False),
    ],
)
def test_where_the_rest_of_a_log_is_is_said_where_there_may_be_one(told: dict[str, Any], *, has_one: bool) -> None:
    details = a_run(RunStatus.FAILED, TaskStatus.FAILED)
    failed = a_task(0, TaskStatus.FAILED, **told)
    shown = "\n".join(details_lines(details.model_copy(update={"tasks": [failed]}), NOW))
    assert ("all of it: crawlctl logs 7 --task 0" in shown) is has_one


def test_a_stop_that_is_proved_is_not_called_unproved_while_its_end_is_written_down() -> None:
    """A receiver of notices that is silent keeps a run STOPPING for seconds after the proof."""
    details = a_run(RunStatus.STOPPING, TaskStatus.STOPPED)
    asked, proved = (LogRecord(at=NOW, event=event, message="") for event in ("stop", "proved"))
    ends = [list(stop_lines(details.model_copy(update={"log": log})))[-1] for log in ([asked], [asked, proved])]
    assert ends[0].startswith("not confirmed yet")
    assert ends[1].startswith("confirmed stopped after")
    again = LogRecord(at=NOW, event="reopened", message="")
    assert list(stop_lines(details.model_copy(update={"log": [asked, proved, again, asked]})))[-1] == ends[0]


def test_a_task_waits_in_words_and_in_those_of_the_page() -> None:
    """`waits: main_job` was shown, a word for programs."""
    details = a_run(RunStatus.PROCESSING, TaskStatus.QUEUED)
    for cause, words in (("main_job", "waits for the main job to run"), ("image_pull", "waits: image pull")):
        task = details.tasks[0].model_copy(update={"cause": cause})
        waiting_run = details.model_copy(update={"tasks": [task]})
        for lines in (
            details_lines(waiting_run, NOW),
            progress_lines(waiting_run, NOW, 3),
            change_lines(None, waiting_run, verbose=True),
        ):
            assert any(words in line for line in lines)


@pytest.mark.parametrize("passing", ["main_job", "dispatcher", "starting"])
def test_without_verbose_a_watch_has_neither_stages_nor_looks(passing: str) -> None:
    """A newcomer read of stages and looks before knowing what they are."""
    queued = a_run(RunStatus.PROCESSING, TaskStatus.RUNNING, TaskStatus.QUEUED, started_at=NOW)
    queued.tasks[1] = queued.tasks[1].model_copy(update={"cause": passing})
    now = NOW + timedelta(seconds=30)
    for lines in (change_lines(None, queued), progress_lines(queued, now, 3)):
        text = click.unstyle("\n".join(lines))
        assert "next look" not in text
        assert "stage" not in text
        assert "1 of 2 tasks running" in text
    assert len(list(change_lines(None, queued))) == 2, "the run and its running task"
    verbose = click.unstyle("\n".join(change_lines(None, queued, verbose=True)))
    assert "stage 3/4 reconciliation" in verbose
    assert "next look 2026-03-01T12:01:00Z" in verbose
    assert any(line.split() == ["next", "look", "2026-03-01T12:01:00Z"] for line in details_lines(queued, now))


def test_a_look_that_is_late_is_shown_at_any_rate() -> None:
    details = a_run(RunStatus.PROCESSING, TaskStatus.RUNNING, started_at=NOW)
    assert any("late since" in line for line in progress_lines(details, NOW + timedelta(minutes=10), 3))


def test_a_result_that_does_not_count_is_a_warning_at_the_end_of_a_run() -> None:
    """The run was COMPLETED, and only `show` said that its result was not used."""
    details = a_run(RunStatus.COMPLETED, *[TaskStatus.SUCCEEDED] * 5)
    for number in range(5):
        events = ["deployed", f"CRAWL_RESULT not used: it is late ({number})"]
        details.tasks[number] = details.tasks[number].model_copy(update={"events": events})
    lines = [click.unstyle(line) for line in end_lines(details)]
    assert lines[1] == "  warning: task 0: CRAWL_RESULT not used: it is late (0)"
    assert lines[3:] == [
        "  warning: task 2: CRAWL_RESULT not used: it is late (2)", "  ... and of 2 more tasks: crawlctl show 7",
    ]  # fmt: skip


def test_a_run_that_a_stop_ended_is_no_failure_in_a_list() -> None:
    """Such a run was a red FAILED there, and STOPPED on the page."""
    stopped, failed = (a_run(RunStatus.FAILED, reason=reason).run for reason in ("stopped_forced", "tasks_failed"))
    _, first, second = list_lines([stopped, failed], NOW)
    assert click.style("STOPPED", fg="yellow") in first
    assert click.style("FAILED ", fg="red") in second


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 160, 200, 400])
def test_a_list_fits_a_terminal(width: int) -> None:
    because = Explanation(text="task 0 (the main job) FAILED with exit code 2: " + "the argument is missing " * 5)
    runs = [a_run(RunStatus.FAILED, TaskStatus.FAILED, reason="main_job_failed", explanation=because).run]
    header, line = (click.unstyle(text) for text in list_lines(runs, NOW, width))
    whole = [click.unstyle(text) for text in list_lines(runs, NOW, 1000)]
    assert len(line) <= width
    assert all(title in header for title in ("RUN", "CRAWLER", "STATUS", "WHY"))
    assert "task 0 (the" in line
    assert ([header, line] == whole) is (width >= len(whole[1]))


@pytest.mark.parametrize(
    ("moment", "on_a_terminal"),
    [
        (NOW - timedelta(seconds=45), "45s ago"),
        (NOW - timedelta(hours=30), "30h00m ago"),
        (NOW - timedelta(days=12, hours=1), "12d ago"),
        (NOW + timedelta(minutes=5), "in 5m00s"),
    ],
)
def test_times_in_tables_are_relative_on_a_terminal(moment: datetime, on_a_terminal: str) -> None:
    assert moment_text(moment, NOW, 80) == on_a_terminal
    assert moment_text(moment, NOW, None) == rfc3339(moment)
    assert moment_text(None, NOW, 80) == "-"


@pytest.mark.parametrize("length", [20, 63, 75, 200])
def test_a_list_with_a_long_name_fits_a_terminal(length: int) -> None:
    """A name of 75 characters made lines of 91 in a terminal of 80, and each took two."""
    because = Explanation(text="task 0 (the main job) FAILED with exit code 2: " + "the argument is missing " * 5)
    run = a_run(RunStatus.FAILED, TaskStatus.FAILED, crawler="s" * length, explanation=because).run
    header, line = (click.unstyle(text) for text in list_lines([run], NOW, 80))
    assert len(line) <= 80
    assert all(title in header for title in ("RUN", "CRAWLER", "STATUS", "WHY"))
    assert line[header.index("STATUS") :].startswith("FAILED")
    assert line[header.index("WHY") :].startswith("task 0 (the main jo")
    whole = click.unstyle(list(list_lines([run], NOW))[1])
    assert "s" * length in whole, "a program gets the whole name"


def test_the_wait_for_the_main_job_is_one_line() -> None:
    """The wait took three lines: `waits for the main job` in two stages, and `waits for starting`."""
    begun, pending = (a_run(RunStatus.INITIALIZING, status) for status in (TaskStatus.QUEUED, TaskStatus.PENDING))
    starting = a_run(RunStatus.INITIALIZING, TaskStatus.PENDING, waiting_cause="starting", waiting_since=NOW)
    lines = [
        line for pair in pairwise([None, begun, pending, starting]) for line in change_lines(pair[0], pair[1] or begun)
    ]
    assert [click.unstyle(line) for line in lines if "task" not in line] == [
        "run 7  INITIALIZING  waits for the main job"
    ]
