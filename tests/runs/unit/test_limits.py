"""When a run's time is up, if its limits stood still meanwhile."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler_lifecycle.model.looks import JobLook, JobPhase, Look, TaskRow
from crawler_lifecycle.model.run_plan import Clock
from crawler_lifecycle.model.states import TaskStatus
from crawler_lifecycle.runs.rules.limits import HELD, RELEASED, clock_of, is_held, limit_at

BEGUN = datetime(2026, 11, 21, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def test_no_limit_is_none_and_a_held_one_does_not_come() -> None:
    assert limit_at(BEGUN, None, Clock()) is None
    assert limit_at(BEGUN, 60, Clock()) == BEGUN + MINUTE
    assert limit_at(BEGUN, 60, Clock(held_since=BEGUN)) is None
    assert limit_at(BEGUN, 60, Clock(held_seconds=60)) == BEGUN + 2 * MINUTE


@given(st.lists(st.integers(1, 1000), max_size=9))
def test_a_limit_is_put_off_by_as_long_as_it_stood_still(minutes: list[int]) -> None:
    """Held after the first of these, released after the second, and so on."""
    at, lines, held = BEGUN, list[tuple[datetime, str]](), timedelta()
    for number, passed in enumerate(minutes):
        at += passed * MINUTE
        held += passed * MINUTE if number % 2 else timedelta()
        lines.append((at, RELEASED if number % 2 else HELD))
    clock = clock_of(lines)
    assert clock.changes == len(lines)
    if len(lines) % 2:
        assert (clock.held_since, limit_at(BEGUN, 60, clock)) == (at, None)
    else:
        assert limit_at(BEGUN, 60, clock) == BEGUN + MINUTE + held


def test_a_line_that_is_there_twice_changes_nothing() -> None:
    once = clock_of([(BEGUN, HELD), (BEGUN + MINUTE, RELEASED)])
    twice = clock_of(
        [(BEGUN, HELD), (BEGUN + MINUTE, HELD), (BEGUN + MINUTE, RELEASED), (BEGUN + 2 * MINUTE, RELEASED)]
    )
    assert once.held_seconds == twice.held_seconds == 60
    assert twice.held_since is None


NONE_YET = TaskRow(1, TaskStatus.DEPLOYING, 1, 1)


def row(task: int, status: TaskStatus = TaskStatus.PENDING) -> TaskRow:
    return TaskRow(task, status, 1, 1, job_uid=f"uid-{task}")


def look(*jobs: JobLook) -> Look:
    return Look(complete=True, jobs={(job.task, job.attempt): job for job in jobs})


def job(task: int, phase: JobPhase = JobPhase.WAITING, cause: str | None = "suspended") -> JobLook:
    return JobLook(task, 1, f"uid-{task}", "job", phase, cause)


@pytest.mark.parametrize(
    ("rows", "shown", "held"),
    [
        ([], look(), False),
        ([TaskRow(0, TaskStatus.QUEUED, 1, 1)], look(), False),
        ([row(0)], look(job(0)), True),
        ([row(0), NONE_YET], look(job(0)), True),
        ([NONE_YET], look(job(1)), True),
        ([row(0, TaskStatus.LOST), row(1)], look(job(1)), True),
        ([row(0), row(1)], look(job(0)), None),
        ([row(0), row(1)], look(job(0), job(1, JobPhase.UNCLEAR, None)), None),
        ([row(0), row(1), row(2)], look(job(0), job(1, JobPhase.RUNNING, None)), False),
        ([row(0)], look(job(0, JobPhase.RUNNING, "suspending")), False),
        ([row(0)], look(job(0, cause="unschedulable")), False),
    ],
)
def test_a_run_is_held_while_nothing_of_it_is_seen_but_what_is_suspended(
    rows: list[TaskRow], shown: Look, held: bool | None
) -> None:
    assert is_held(rows, shown) is held
