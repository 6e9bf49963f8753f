"""The sentence that says why a run ended."""

from datetime import timedelta
from typing import Any

import pytest

from crawler_lifecycle.base.words import span
from crawler_lifecycle.model.records import Explanation, FormerAttempt, LogRecord, RunRecord, TaskRecord
from crawler_lifecycle.model.requests import KeptRequest
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from crawler_lifecycle.runs.rules.outcome import explanation, last_line
from tests.kit.data.shown import NOW, a_run, a_task

SUCCEEDED, FAILED, LOST, STOPPED = TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.LOST, TaskStatus.STOPPED


def ended(reason: str, *tasks: TaskRecord, status: RunStatus = RunStatus.FAILED, **request: Any) -> RunRecord:
    run = a_run(status, *(task.status for task in tasks)).run
    return run.model_copy(update={"reason": reason, "request": KeptRequest(crawler="shop", **request)})


def text_of(reason: str, *tasks: TaskRecord, log: list[LogRecord] | None = None, **more: Any) -> str:
    found = explanation(ended(reason, *tasks, **more), tasks, log or [])
    assert found is not None
    return found.text


def an_attempt(exit_code: int) -> FormerAttempt:
    nothing = dict.fromkeys(FormerAttempt.model_fields)
    known = {"attempt": 1, "status": FAILED, "reason": f"exit_{exit_code}", "exit_code": exit_code, "events": []}
    return FormerAttempt.model_validate(nothing | known)


def a_stop(event: str, actor: str | None, door: str, message: str, after: int = 0) -> LogRecord:
    return LogRecord(at=NOW + timedelta(seconds=after), event=event, message=message, actor=actor, door=door)


def test_a_failed_main_job_is_named_with_its_exit_code_and_its_last_line() -> None:
    main = a_task(0, FAILED, reason="exit_2", exit_code=2, log_tail="begin\nthe argument `site` is missing\n\n")
    others = [a_task(number, FAILED, reason="exit_2", exit_code=2) for number in (1, 2)]
    found = explanation(ended("main_job_failed", main, *others), [main, *others], [])
    assert found == Explanation(
        text="task 0 (the main job) FAILED with exit code 2: the argument `site` is missing "
        "(and 2 more tasks FAILED or LOST)",
        task=0,
        task_reason="exit_2",
        exit_code=2,
        last_line="the argument `site` is missing",
    )


def test_a_run_that_its_schedule_replaced_names_the_schedule() -> None:
    asked = a_stop("stop", "schedule nightly", "schedule", "its next occurrence was due")
    said = "replaced by schedule nightly: its next occurrence was due"
    assert text_of("stopped", a_task(0, STOPPED), log=[asked]) == said


@pytest.mark.parametrize(
    ("reason", "tasks", "expected"),
    [
        ("main_job_lost", [a_task(0, LOST, reason="runner_lost")], "task 0 (the main job) LOST (runner_lost)"),
        (
            "tasks_failed",
            [a_task(0, SUCCEEDED), a_task(1, LOST), a_task(2, FAILED, reason="oom_killed", exit_code=137)],
            "task 2 FAILED (oom_killed, exit code 137) (and 1 more task FAILED or LOST)",
        ),
        ("tasks_lost", [a_task(0, SUCCEEDED), a_task(3, LOST, message="gone\nno trace")], "task 3 LOST: no trace"),
    ],
)
def test_the_task_that_decided_is_named(reason: str, tasks: list[TaskRecord], expected: str) -> None:
    assert text_of(reason, *tasks) == expected


def test_failures_that_the_request_allows_are_told() -> None:
    tasks = [a_task(0, SUCCEEDED), a_task(1, FAILED, reason="exit_3", exit_code=3)]
    told = text_of("failures_allowed", *tasks, status=RunStatus.COMPLETED)
    assert told == "task 1 FAILED with exit code 3"


def test_a_stop_names_its_person_and_a_force_its_own() -> None:
    asked = a_stop("stop", "eve", "api", "wrong site")
    grace = a_stop("force stop", "crawler-lifecycle", "grace_period", "the grace period of 7 s is over", 7)
    assert text_of("stopped", a_task(0, STOPPED), log=[asked]) == "stopped by eve (api): wrong site"
    found = explanation(ended("stopped_forced"), [], [asked, grace])
    assert found == Explanation(
        text="stopped by eve (api): wrong site; "
        "forced by crawler-lifecycle (grace_period): the grace period of 7 s is over",
        stopped_by="eve",
        door="api",
        forced=True,
    )
    at_once = a_stop("force stop", None, "signal", "no reason given")
    assert text_of("stopped_forced", log=[at_once]) == (
        "stopped by somebody who gave no name (signal): no reason given, by force"
    )


def test_a_stop_of_an_earlier_end_is_not_told() -> None:
    earlier, later = a_stop("stop", "eve", "api", "first"), a_stop("stop", "bob", "cli", "second", 9)
    assert "bob" in text_of("stopped", log=[earlier, a_stop("reopened", None, "", "again", 5), later])


def test_limits_are_told_with_their_length() -> None:
    main = a_task(0, STOPPED, reason="never_started", message="0/3 nodes are available")
    assert text_of("never_started", main, start_limit_seconds=90) == (
        "the main job did not start within the start limit of 1 min 30 s: 0/3 nodes are available"
    )
    assert text_of("max_duration", main, max_duration_seconds=600) == ("the run exceeded its time limit of 10 min")


def test_a_limit_is_told_with_the_failures_before_it() -> None:
    """Attempts that failed were only in the task's former attempts."""
    main = a_task(0, STOPPED, program_failures=2, former_attempts=[an_attempt(2), an_attempt(2)])
    assert text_of("max_duration", main, max_duration_seconds=20) == (
        "the run exceeded its time limit of 20 s, after 2 attempts that failed with exit code 2"
    )
    mixed = main.model_copy(update={"former_attempts": [an_attempt(1), an_attempt(3)]})
    assert text_of("max_duration", mixed, max_duration_seconds=20).endswith(
        ", after 2 attempts that failed, the last with exit code 3"
    )
    waiting = main.model_copy(update={"program_failures": 1, "message": "no room"})
    assert text_of("never_started", waiting, start_limit_seconds=9) == (
        "the main job did not start within the start limit of 9 s, "
        "after 1 attempt that failed with exit code 2: no room"
    )
    reopened = main.model_copy(update={"program_failures": 0})
    assert text_of("max_duration", reopened, max_duration_seconds=20) == "the run exceeded its time limit of 20 s"


def test_a_killed_program_is_called_killed() -> None:
    """`sigkill_unknown, exit code 137` was shown."""
    main = a_task(0, FAILED, reason="sigkill_unknown", exit_code=137, log_tail="page 8\n")
    said = "task 0 (the main job) FAILED: killed (SIGKILL); possibly out of memory"
    assert text_of("main_job_failed", main) == f"{said}; its last line: page 8"
    assert text_of("main_job_failed", main.model_copy(update={"log_tail": None})) == said


@pytest.mark.parametrize(("seconds", "words"), [(0, "0 s"), (20, "20 s"), (90, "1 min 30 s"), (183600, "2 d 3 h")])
def test_a_span_of_time_has_its_units(seconds: int, words: str) -> None:
    assert span(seconds) == words


def test_a_refused_deployment_says_what_the_service_said() -> None:
    main = a_task(0, FAILED, reason="deployment_refused", message="no such\n image")
    assert text_of("deployment_refused", main) == "the main job could not be deployed: no such image"


@pytest.mark.parametrize("status", [RunStatus.PROCESSING, RunStatus.STOPPING])
def test_a_run_under_way_has_no_explanation(status: RunStatus) -> None:
    assert explanation(ended("stopped", status=status), [a_task(0, FAILED)], []) is None


def test_a_run_that_succeeded_has_no_explanation() -> None:
    tasks = [a_task(0, SUCCEEDED)]
    assert explanation(ended("all_succeeded", *tasks, status=RunStatus.COMPLETED), tasks, []) is None


def test_the_last_line_has_no_colours_and_an_end() -> None:
    assert last_line("a\n\x1b[31mred\x1b[0m \n \n") == "red"
    assert last_line("x" * 5000) == "x" * 200
    assert last_line("turned\u202eexe\x07") == "turned\ufffdexe\ufffd"
    assert last_line(" \n") is None
    assert last_line(None) is None
