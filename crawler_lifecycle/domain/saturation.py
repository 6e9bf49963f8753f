"""Rule for saturation: tasks of a run wait for room, and for five minutes no task of the run has started."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from crawler_lifecycle.contract.states import TaskStatus
from crawler_lifecycle.domain.looks import Look, TaskRow
from crawler_lifecycle.domain.reasons import CAPACITY, NOT_CONSIDERED, QUOTA, UNSCHEDULABLE

PATIENCE = timedelta(minutes=5)
FULL = frozenset({CAPACITY, QUOTA, UNSCHEDULABLE, NOT_CONSIDERED})
# a RUNNING task may wait for room: preempted, and waiting for another pod
WAITING = (TaskStatus.QUEUED, TaskStatus.DEPLOYING, TaskStatus.PENDING, TaskStatus.RUNNING)


def is_saturated(cause: str | None, since: datetime | None, now: datetime) -> bool:
    return cause in FULL and since is not None and now - since >= PATIENCE


def saturation(rows: Iterable[TaskRow], look: Look, now: datetime) -> str | None:
    """Return why a task waits for room, if no task of the run has started lately; None otherwise."""
    rows = list(rows)
    starts = [row.started_at for row in rows] + [job.started_at for job in look.jobs.values()]
    if any(start is not None and now - start < PATIENCE for start in starts):
        return None
    waiting = (row for row in rows if row.status in WAITING)
    return next((row.cause for row in waiting if is_saturated(row.cause, row.cause_since, now)), None)
