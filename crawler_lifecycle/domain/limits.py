"""Time limits of a run. The limit clock stands still while a queue or person suspends all its jobs."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from crawler_lifecycle.contract.steps.run import Clock
from crawler_lifecycle.domain.looks import JobLook, JobPhase, Look, TaskRow
from crawler_lifecycle.domain.reasons import SUSPENDED

HELD, RELEASED = "limits_held", "limits_released"  # keys in the run's timeline


def is_held(open_rows: Iterable[TaskRow], look: Look) -> bool | None:
    """Return whether all jobs of these tasks are suspended; None if the look does not show every job."""
    suspended = list(_suspended(open_rows, look))
    if False in suspended:
        return False
    return None if None in suspended else bool(suspended)


def _suspended(open_rows: Iterable[TaskRow], look: Look) -> Iterator[bool | None]:
    """Yield for every deployed open task whether its job is suspended; None if the look does not show the job."""
    for row in open_rows:
        job = look.jobs.get((row.task, row.attempt))
        if row.status.is_over or (row.job_uid is None and job is None):
            continue
        is_seen = job is not None and job.phase is not JobPhase.UNCLEAR
        yield _is_suspended(job) if job and is_seen else None


def _is_suspended(job: JobLook) -> bool:
    return job.phase is JobPhase.WAITING and job.cause == SUSPENDED


def limit_at(begun_at: datetime, seconds: int | None, clock: Clock) -> datetime | None:
    """Return when the limit is reached; None without a limit, or while the clock stands still."""
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
    changes = clock.changes + 1
    if event == HELD:
        return Clock(held_seconds=clock.held_seconds, held_since=clock.held_since or at, changes=changes)
    held = at - clock.held_since if clock.held_since else timedelta()
    return Clock(held_seconds=clock.held_seconds + held.total_seconds(), changes=changes)
