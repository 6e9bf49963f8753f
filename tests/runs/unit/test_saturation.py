"""When a cluster counts as full."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from crawler_lifecycle.model.looks import JobLook, JobPhase, Look, TaskRow
from crawler_lifecycle.model.states import TaskStatus
from crawler_lifecycle.runs.rules.verdict import FULL, in_words, saturation

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
LONG_AGO, LATELY = NOW - timedelta(minutes=6), NOW - timedelta(minutes=4)
NOTHING = Look(complete=True)


def waiting(task: int, cause: str | None, since: datetime | None) -> TaskRow:
    return TaskRow(task, TaskStatus.PENDING, 1, 1, cause=cause, cause_since=since)


def running(task: int, since: datetime) -> TaskRow:
    return TaskRow(task, TaskStatus.RUNNING, 1, 1, started_at=since)


@pytest.mark.parametrize("cause", sorted(FULL))
def test_a_task_that_waits_for_room_for_long_while_nothing_starts(cause: str) -> None:
    rows = [running(0, LONG_AGO), waiting(1, None, LONG_AGO), waiting(2, cause, LONG_AGO)]
    assert saturation(rows, NOTHING, NOW) == cause


def test_a_task_that_no_job_can_be_made_for() -> None:
    refused = TaskRow(1, TaskStatus.DEPLOYING, 1, 1, cause="quota", cause_since=LONG_AGO)
    assert saturation([refused], NOTHING, NOW) == "quota"


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [waiting(1, "unschedulable", LATELY)],
        [waiting(1, "image_pull", LONG_AGO)],
        [waiting(1, "unschedulable", None)],
        [waiting(1, "unschedulable", LONG_AGO), running(0, LATELY)],
        [TaskRow(1, TaskStatus.QUEUED, 1, 1, cause="run_limit", cause_since=LONG_AGO)],
    ],
)
def test_otherwise_it_is_not_full(rows: list[TaskRow]) -> None:
    assert saturation(rows, NOTHING, NOW) is None


def test_a_task_that_started_and_ended_lately_shows_that_there_is_room() -> None:
    ended = JobLook(0, 1, "uid", "job", JobPhase.SUCCEEDED, started_at=LATELY)
    look = Look(complete=True, jobs={(0, 1): ended})
    assert saturation([waiting(1, "quota", LONG_AGO)], look, NOW) is None


def test_a_pod_that_no_node_takes_does_not_prove_a_full_cluster() -> None:
    """A volume claim that does not exist was called a full cluster."""
    assert [in_words(cause) for cause in ("unschedulable", "not_considered")] == ["no node takes its pods"] * 2
    assert [in_words(cause) for cause in ("quota", "capacity")] == ["no capacity for over 5 minutes"] * 2


def test_the_pages_do_not_call_a_pod_without_a_node_a_lack_of_room() -> None:
    docs = Path(__file__).parents[3] / "docs"
    texts = {page: " ".join((docs / f"{page}.md").read_text().split()) for page in ("architecture", "operations")}
    assert "for room (`capacity`, `quota`) or for a node (`unschedulable`, `not_considered`)" in texts["architecture"]
    assert "`unschedulable` means that no node takes the pod" in texts["operations"]
    assert in_words("unschedulable") in " ".join((docs / "guarantees.md").read_text().split())
