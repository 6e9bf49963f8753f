"""Attempts of tasks: queue the next attempt after an end, and keep the previous attempt in a separate table."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, insert, select, update

from crawler_lifecycle.base.words import counted
from crawler_lifecycle.database.pages import pages, rows_as_table
from crawler_lifecycle.database.schema import histories, task_attempts, task_histories
from crawler_lifecycle.database.transactions import log
from crawler_lifecycle.model.reasons import RETRY_PAUSE
from crawler_lifecycle.model.retries import FailureKind
from crawler_lifecycle.model.run_plan import RunRef
from crawler_lifecycle.model.states import Intent, TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange

tasks = task_histories.c
NO_RETRIES_YET = {"infrastructure_failures": 0, "program_failures": 0}
# columns about the previous attempt, emptied for the next attempt
NO_JOB_YET = dict.fromkeys(
    (
        "cause", "cause_since", "reason", "exit_code", "facts", "job_name", "job_uid", "claim_token", "absent_since",
        "claim_expires_at", "deploy_after", "deployed_at", "started_at", "finished_at", "message", "node", "log_tail",
    )
)  # fmt: skip
RETRIED = (TaskStatus.FAILED, TaskStatus.LOST)  # another attempt may follow these ends
# columns for a page of ends
END_COLUMNS = [
    tasks.history_id,
    tasks.task,
    tasks.attempt,
    tasks.version,
    tasks.deploy_after,
    tasks.infrastructure_failures,
    tasks.program_failures,
]
MOST_NAMED = 50  # tasks named in a timeline line


def next_attempt(now: datetime) -> dict[str, Any]:
    """Return the values of a task's row for its next attempt, without a job."""
    counters = {"attempt": tasks.attempt + 1, "version": tasks.version + 1, "absent_count": 0, "restarts": 0}
    return {"status": TaskStatus.QUEUED, "queued_at": now, "events": "[]", **counters, **NO_JOB_YET}


def keep_former_attempts(connection: Connection, condition: ColumnElement[bool]) -> None:
    """Copy these tasks' present attempts to the previous attempts; a task without a job has nothing to keep."""
    names = [column.name for column in task_attempts.c]
    attempts = select(*(tasks[name] for name in names)).where(condition, tasks.job_uid.is_not(None))
    connection.execute(insert(task_attempts).from_select(names, attempts))


def queue_retries(connection: Connection, run: RunRef, changes: Sequence[TaskChange], now: datetime) -> None:
    """Queue the next attempts of the changes just written, and log them; a run with a stop gets no further attempt.

    The caller holds the lock on the run's row, so no other write comes between the end and the next attempt.
    """
    ends = [change for change in changes if change.next_attempt]
    if not ends or _has_stop(connection, run):
        return
    queued = [end for page in pages(ends) for end in _queue_page(connection, run.run_id, page, now)]
    if queued:
        key = f"next_attempt:{queued[0].task}:{queued[0].attempt}"
        log(connection, run, key, {"at": now, "event": "next attempt", "message": _in_a_sentence(queued)})


def _has_stop(connection: Connection, run: RunRef) -> bool:
    return connection.scalar(select(histories.c.intent).where(histories.c.id == run.run_id)) != Intent.RUN


def _queue_page(connection: Connection, run_id: int, ends: Sequence[TaskChange], now: datetime) -> list[TaskChange]:
    """Queue the next attempts after these ends, and return the stored ends."""
    page = rows_as_table(connection, END_COLUMNS, [_end_row(run_id, end) for end in ends])
    is_same_task = and_(tasks.history_id == page.c.history_id, tasks.task == page.c.task)
    # as an expression, the status has no index: with the index, SQLite reads all failed tasks for every row of the page
    is_ended = func.coalesce(tasks.status, "").in_(RETRIED)
    is_written = and_(tasks.attempt == page.c.attempt, tasks.version == page.c.version, is_ended)
    written = set(connection.scalars(select(tasks.task).where(is_same_task, is_written)))
    keep_former_attempts(connection, and_(is_same_task, is_written))
    values = {
        **next_attempt(now),
        "cause": RETRY_PAUSE,
        "cause_since": now,
        "deploy_after": page.c.deploy_after,
        "infrastructure_failures": tasks.infrastructure_failures + page.c.infrastructure_failures,
        "program_failures": tasks.program_failures + page.c.program_failures,
    }
    connection.execute(update(task_histories).where(is_same_task, is_written).values(values))
    return [end for end in ends if end.task in written]


def _end_row(run_id: int, end: TaskChange) -> tuple[object, ...]:
    """Return the end's values for END_COLUMNS. The write of the end has raised the row's version by 1."""
    following = end.next_attempt
    assert following is not None
    is_infrastructure = following.kind is FailureKind.INFRASTRUCTURE
    failures = (int(is_infrastructure), int(not is_infrastructure))
    return run_id, end.task, end.attempt, end.version + 1, following.deploy_after, *failures


def _in_a_sentence(ends: Sequence[TaskChange]) -> str:
    """Return which tasks get which attempt, and why, for the run's timeline."""
    named = ", ".join(f"{end.task} (attempt {end.attempt + 1} after {end.reason})" for end in ends[:MOST_NAMED])
    more = f" and {len(ends) - MOST_NAMED} more" if len(ends) > MOST_NAMED else ""
    verb = "gets its next attempt" if len(ends) == 1 else "get their next attempts"
    return f"{counted(len(ends), 'task')} {verb}: {named}{more}"
