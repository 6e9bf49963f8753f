"""When is a run's time up? Not while somebody holds its jobs back: a queue that waits for room, a person."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from crawler_lifecycle.contract.clock import Clock
from crawler_lifecycle.contract.states import TaskStatus
from crawler_lifecycle.domain.looks import JobPhase, Look, TaskRow
from crawler_lifecycle.domain.reasons import SUSPENDED

HELD, RELEASED = "limits_held", "limits_released"  # in the run's timeline


def is_held(open_rows: Iterable[TaskRow], look: Look) -> bool:
    """What is not deployed yet says nothing; of the others every one has to be suspended."""
    deployed = [row for row in open_rows if row.status is not TaskStatus.QUEUED and not row.status.is_over]
    return bool(deployed) and all(_is_suspended(row, look) for row in deployed)


def _is_suspended(row: TaskRow, look: Look) -> bool:
    job = look.jobs.get((row.task, row.attempt))
    return job is not None and job.phase is JobPhase.WAITING and job.cause == SUSPENDED


def limit_at(begun_at: datetime, seconds: int | None, clock: Clock) -> datetime | None:
    """None: there is no limit, or it does not count now."""
    if seconds is None or clock.held_since is not None:
        return None
    return begun_at + timedelta(seconds=seconds + clock.held_seconds)


def clock_of(timeline: Iterable[tuple[datetime, str]]) -> Clock:
    """From the lines of a timeline, in their order."""
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
