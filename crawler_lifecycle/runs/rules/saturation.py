"""Rule for saturation: a task has waited for room or for a node for five minutes, and no task has started meanwhile."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from crawler_lifecycle.model.looks import Look, TaskRow
from crawler_lifecycle.model.reasons import CAPACITY, NOT_CONSIDERED, QUOTA, UNSCHEDULABLE
from crawler_lifecycle.model.states import TaskStatus

PATIENCE = timedelta(minutes=5)  # a shorter wait for room is usual
# causes of a wait for room or for a node
FULL = frozenset({CAPACITY, QUOTA, UNSCHEDULABLE, NOT_CONSIDERED})
WITHOUT_NODE = (UNSCHEDULABLE, NOT_CONSIDERED)  # a lack of room is a possible reason, among further reasons
# RUNNING is here because a preempted task keeps this status while the task waits for room for its next pod
WAITING = (TaskStatus.QUEUED, TaskStatus.DEPLOYING, TaskStatus.PENDING, TaskStatus.RUNNING)


def is_saturated(cause: str | None, since: datetime | None, now: datetime) -> bool:
    """Return whether the wait is for room or for a node, and has lasted for at least five minutes."""
    return cause in FULL and since is not None and now - since >= PATIENCE


def in_words(cause: str | None) -> str:
    """Return the saturation by this cause in words, for people."""
    return "no node takes its pods" if cause in WITHOUT_NODE else "no capacity for over 5 minutes"


def saturation(rows: Iterable[TaskRow], look: Look, now: datetime) -> str | None:
    """Return the cause of the first long wait for room or a node; None without one, or if a task has started lately."""
    rows = list(rows)
    starts = [row.started_at for row in rows] + [job.started_at for job in look.jobs.values()]
    if any(start is not None and now - start < PATIENCE for start in starts):
        return None
    waiting = (row for row in rows if row.status in WAITING)
    return next((row.cause for row in waiting if is_saturated(row.cause, row.cause_since, now)), None)
