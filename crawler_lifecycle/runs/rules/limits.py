"""Rules for a run's limit clock. The clock is stopped (held) while a queue or person suspends all jobs."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from crawler_lifecycle.model.looks import JobPhase, Look, TaskRow
from crawler_lifecycle.model.reasons import SUSPENDED
from crawler_lifecycle.model.run_plan import Clock

HELD, RELEASED = "limits_held", "limits_released"  # events in the run's timeline: the clock stops, or continues


def is_held(open_rows: Iterable[TaskRow], look: Look) -> bool | None:
    """Return whether the limit clock has to stop: all open tasks' jobs are suspended.

    False if a job is not suspended, or without any job. None if the look does not show every job.
    """
    suspensions = list(_suspensions(open_rows, look))
    if False in suspensions:
        return False
    return None if None in suspensions else bool(suspensions)


def _suspensions(open_rows: Iterable[TaskRow], look: Look) -> Iterator[bool | None]:
    """Yield for every open task with a job whether the job is suspended; None if the look does not show the job."""
    for row in open_rows:
        job = look.jobs.get((row.task, row.attempt))
        has_no_job = row.job_uid is None and job is None
        if row.status.is_over or has_no_job:
            continue
        if job is None or job.phase is JobPhase.UNCLEAR:
            yield None
        else:
            yield job.phase is JobPhase.WAITING and job.cause == SUSPENDED


def limit_at(begun_at: datetime, seconds: int | None, clock: Clock) -> datetime | None:
    """Return when the limit (`seconds`) is reached; None without a limit, or while the clock is stopped."""
    if seconds is None or clock.is_held:
        return None
    return begun_at + timedelta(seconds=seconds + clock.held_seconds)


def clock_of(timeline: Iterable[tuple[datetime, str]]) -> Clock:
    """Return the limit clock after these timeline lines (HELD and RELEASED), oldest first."""
    clock = Clock()
    for at, event in timeline:
        clock = _changed(clock, at, event)
    return clock


def _changed(clock: Clock, at: datetime, event: str) -> Clock:
    """Return the clock after an event at this time. A second HELD or RELEASED in a row changes only the count."""
    changes = clock.changes + 1
    if event == HELD:
        return Clock(held_seconds=clock.held_seconds, held_since=clock.held_since or at, changes=changes)
    standstill = at - clock.held_since if clock.held_since else timedelta()
    return Clock(held_seconds=clock.held_seconds + standstill.total_seconds(), changes=changes)
