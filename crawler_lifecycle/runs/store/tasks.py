"""Tasks' rows, read and written by looks: a statement has up to a thousand rows.

After an end, `queue_retries` queues the next attempt, and keeps the previous attempt in a separate table.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Update,
    and_,
    bindparam,
    case,
    func,
    insert,
    not_,
    or_,
    select,
    update,
)

from crawler_lifecycle.base.words import counted
from crawler_lifecycle.database.pages import pages, rows_as_table
from crawler_lifecycle.database.schema import histories, task_attempts, task_histories
from crawler_lifecycle.database.transactions import OnDatabase, fence, log, missing_run, reading, transaction
from crawler_lifecycle.limits.store.uses import counting
from crawler_lifecycle.model.looks import JobKey, TaskRow
from crawler_lifecycle.model.reasons import RETRY_PAUSE
from crawler_lifecycle.model.retries import FailureKind
from crawler_lifecycle.model.run_plan import RunRef
from crawler_lifecycle.model.states import OVER, Intent, TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange, TaskEvidence

old = task_histories.c  # the row in the database; `new` is the row in a page of changes or evidence
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
    old.history_id,
    old.task,
    old.attempt,
    old.version,
    old.deploy_after,
    old.infrastructure_failures,
    old.program_failures,
]
MOST_NAMED = 50  # tasks named in a timeline line
NOT_STARTED = (TaskStatus.DEPLOYING, TaskStatus.PENDING)
# statuses unchanged by looks; a LOST task is corrected if its job's outcome fact shows up later
UNCHANGEABLE = tuple(status for status in OVER if status is not TaskStatus.LOST)
ROW_COLUMNS = [old[name] for name in TaskRow.__dataclass_fields__]
KEY = [old.history_id, old.task]
# columns for a page of changes: names and types as in the table, in the same order as in `_change_row`
CHANGE_COLUMNS = [
    *KEY,
    old.attempt,
    old.version,
    old.status,
    old.job_uid,
    old.job_name,
    old.cause,
    old.reason,
    old.exit_code,
    old.message,
    old.absent_count,
    old.started_at,
    old.facts,
    old.finished_at,  # the change's `ended_at`
]
EVIDENCE_COLUMNS = [*KEY, old.attempt, old.job_uid, old.message, old.node, old.restarts, old.log_tail, old.events]
FEW = 20  # tasks, to be read by a statement that is built once
FEW_ROWS = (
    select(*ROW_COLUMNS)
    .where(old.history_id == bindparam("of_run"), old.task.in_(bindparam("numbers", expanding=True)))
    .order_by(old.task)
)
BY_STATUS = select(old.status, old.task).where(old.history_id == bindparam("of_run")).order_by(old.task)


def next_attempt(now: datetime) -> dict[str, Any]:
    """Return the values of a task's row for its next attempt, without a job."""
    counters = {"attempt": old.attempt + 1, "version": old.version + 1, "absent_count": 0, "restarts": 0}
    return {"status": TaskStatus.QUEUED, "queued_at": now, "events": "[]", **counters, **NO_JOB_YET}


def keep_former_attempts(connection: Connection, condition: ColumnElement[bool]) -> None:
    """Copy these tasks' present attempts to the previous attempts; a task without a job has nothing to keep."""
    names = [column.name for column in task_attempts.c]
    attempts = select(*(old[name] for name in names)).where(condition, old.job_uid.is_not(None))
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
    is_same_task = and_(old.history_id == page.c.history_id, old.task == page.c.task)
    # as an expression, the status has no index: with the index, SQLite reads all failed tasks for every row of the page
    is_ended = func.coalesce(old.status, "").in_(RETRIED)
    is_written = and_(old.attempt == page.c.attempt, old.version == page.c.version, is_ended)
    written = set(connection.scalars(select(old.task).where(is_same_task, is_written)))
    keep_former_attempts(connection, and_(is_same_task, is_written))
    values = {
        **next_attempt(now),
        "cause": RETRY_PAUSE,
        "cause_since": now,
        "deploy_after": page.c.deploy_after,
        "infrastructure_failures": old.infrastructure_failures + page.c.infrastructure_failures,
        "program_failures": old.program_failures + page.c.program_failures,
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


class TaskRows(OnDatabase):
    """The methods in `runs.ports.Tasks` for looks."""

    @reading
    def by_status(self, connection: Connection, run_id: int) -> dict[TaskStatus, list[int]]:
        numbers: dict[TaskStatus, list[int]] = {}
        for status, task in connection.execute(BY_STATUS, {"of_run": run_id}):
            numbers.setdefault(status, []).append(task)
        if not numbers:
            raise missing_run(connection, run_id)
        return numbers

    @reading
    def rows(self, connection: Connection, run_id: int, tasks: Sequence[int]) -> list[TaskRow]:
        task_rows: list[TaskRow] = []
        if len(tasks) <= FEW:
            few = connection.execute(FEW_ROWS, {"of_run": run_id, "numbers": sorted(set(tasks))}) if tasks else ()
            return [TaskRow(*row) for row in few]
        for numbers in pages(sorted(set(tasks))):
            keys = rows_as_table(connection, KEY, [(run_id, number) for number in numbers])
            query = select(*ROW_COLUMNS).where(*_same_task(keys)).order_by(old.task)
            task_rows.extend(TaskRow(*row) for row in connection.execute(query))
        return task_rows

    def sync(self, run: RunRef, changes: Sequence[TaskChange], *, hurried: bool = False) -> int:
        """Write the changes in a single transaction. Return how many rows changed."""

        def write(tx: Connection) -> int:
            fence(tx, run)
            now = self._db.clock()
            with counting(tx, run.run_id):
                updates = [_update_by_changes(tx, run.run_id, page, now) for page in pages(changes)]
                written = sum(tx.execute(update).rowcount for update in updates)
                queue_retries(tx, run, changes, now)
            return written

        return self._db.transact(write, hurried=hurried)

    def reconcile(self, run: RunRef, evidence: Sequence[TaskEvidence], *, hurried: bool = False) -> int:
        """Write the evidence in a single transaction. Return how many rows changed."""

        def write(tx: Connection) -> int:
            fence(tx, run)
            return sum(tx.execute(_update_by_evidence(tx, run.run_id, page)).rowcount for page in pages(evidence))

        return self._db.transact(write, hurried=hurried)

    @reading
    def unexplained(self, connection: Connection, run_id: int) -> list[JobKey]:
        """Return the jobs that ended on their own and have no evidence."""
        ended_by_itself = old.status.in_((TaskStatus.SUCCEEDED, TaskStatus.FAILED)) & old.job_uid.is_not(None)
        # evidence always names a node, so a row without a node has no evidence (decision 18)
        query = select(old.task, old.attempt).where(old.history_id == run_id, ended_by_itself, old.node.is_(None))
        return [(row.task, row.attempt) for row in connection.execute(query.order_by(old.task))]

    @transaction
    def cancel_queued(self, tx: Connection, run: RunRef, reason: str) -> int:
        fence(tx, run)
        ended = {"status": TaskStatus.STOPPED, "reason": reason, "finished_at": self._db.clock(), "cause": None}
        queued = update(task_histories).where(old.history_id == run.run_id, old.status == TaskStatus.QUEUED)
        with counting(tx, run.run_id):
            return tx.execute(queued.values(version=old.version + 1, cause_since=None, **ended)).rowcount


def _update_by_changes(connection: Connection, run_id: int, changes: Sequence[TaskChange], now: datetime) -> Update:
    """Return the statement to write a page of changes.

    A row with a new version since its reading stays unchanged.
    """
    page = rows_as_table(connection, CHANGE_COLUMNS, [(run_id, *_change_row(change)) for change in changes])
    new = page.c
    is_over = new.status.in_(OVER)
    # without a new message the old message stays, except for a message about a wait that ends now
    gets_job = and_(old.job_uid.is_(None), new.job_uid.is_not(None), not_(is_over))
    starts = and_(old.status.in_(NOT_STARTED), old.cause.is_not(None), new.status == TaskStatus.RUNNING)
    replaces_message = or_(gets_job, starts, new.status == TaskStatus.PENDING)
    # MySQL assigns in order: an expression with an old value comes before the old value's assignment
    return (
        update(task_histories)
        .where(*_same_task(page))
        .where(old.attempt == new.attempt, old.version == new.version, old.status.not_in(UNCHANGEABLE))
        .ordered_values(
            (old.message, case((replaces_message, new.message), else_=func.coalesce(new.message, old.message))),
            (old.cause_since, case((new.cause.is_(None), None), (old.cause == new.cause, old.cause_since), else_=now)),
            (old.cause, new.cause),
            (
                old.deployed_at,
                case((new.job_uid.is_(None), old.deployed_at), else_=func.coalesce(old.deployed_at, now)),
            ),
            (old.finished_at, case((is_over, func.coalesce(new.finished_at, old.finished_at, now)), else_=None)),
            (old.started_at, func.coalesce(new.started_at, old.started_at)),
            (old.status, new.status),
            (old.job_uid, new.job_uid),
            (old.job_name, func.coalesce(new.job_name, old.job_name)),
            (old.reason, new.reason),
            (old.exit_code, new.exit_code),
            (old.facts, new.facts),
            (old.absent_since, case((new.absent_count == 0, None), else_=func.coalesce(old.absent_since, now))),
            (old.absent_count, new.absent_count),
            (old.claim_token, None),
            (old.claim_expires_at, None),
            (old.version, old.version + 1),
        )
    )


def _update_by_evidence(connection: Connection, run_id: int, evidence: Sequence[TaskEvidence]) -> Update:
    """Return the statement to store evidence for a page of tasks.

    The version stays: a look writes evidence after it has read the row and before it writes the status. Evidence does
    not replace the message of an end. Evidence from a job other than the task's job is left out.
    """
    page = rows_as_table(connection, EVIDENCE_COLUMNS, [(run_id, *_evidence_row(item)) for item in evidence])
    new = page.c
    return (
        update(task_histories)
        .where(*_same_task(page), old.attempt == new.attempt)
        .where(or_(new.job_uid.is_(None), old.job_uid.is_(None), old.job_uid == new.job_uid))
        .values(
            message=case(
                (old.status.in_(UNCHANGEABLE), func.coalesce(old.message, new.message)),
                else_=func.coalesce(new.message, old.message),
            ),
            node=func.coalesce(new.node, old.node),
            restarts=func.coalesce(new.restarts, old.restarts),
            log_tail=func.coalesce(new.log_tail, old.log_tail),
            events=func.coalesce(new.events, old.events),
        )
    )


def _same_task(page: FromClause) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions to join the table with the page.

    The run's id is a column in the page and not a constant: with a constant, both databases' planners go through
    all tasks in the run and read the whole page for every task.
    """
    return old.history_id == page.c.history_id, old.task == page.c.task


def _change_row(change: TaskChange) -> tuple[object, ...]:
    """Return the change's values for CHANGE_COLUMNS without the first, the run's id."""
    same_names = [column.name for column in CHANGE_COLUMNS[1:-1]]
    return tuple(getattr(change, name) for name in (*same_names, "ended_at"))


def _evidence_row(item: TaskEvidence) -> tuple[object, ...]:
    """Return the row for evidence. Empty values become NULL, so that the stored values stay."""
    events = json.dumps(item.events) if item.events else None
    return (
        item.task,
        item.attempt,
        item.job_uid,
        item.message,
        item.node,
        item.restarts or None,
        item.log_tail or None,
        events,
    )
