"""Additions of tasks to an open run.

A property of the run records every addition under the request's key, so a repeated request adds no tasks.
"""

import hashlib
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, update

from crawler_lifecycle.database.pages import pages
from crawler_lifecycle.database.schema import histories, history_properties, task_histories
from crawler_lifecycle.database.transactions import OnDatabase, lock_run, log, transaction
from crawler_lifecycle.errors import BadInput, Conflict
from crawler_lifecycle.limits.store.uses import counting
from crawler_lifecycle.model.reasons import DISPATCHER, MAIN_JOB
from crawler_lifecycle.model.run_plan import RunRef
from crawler_lifecycle.model.states import ALIVE, Intent, RunStatus
from crawler_lifecycle.runs.ports import Addition
from crawler_lifecycle.runs.store.creation import NEW_TASK
from crawler_lifecycle.runs.store.reading import run_row

tasks = task_histories.c


class TaskAdditions(OnDatabase):
    """The method in `runs.ports.Tasks` for additions."""

    @transaction
    def add(self, tx: Connection, addition: Addition) -> range:
        lock_run(tx, addition.run_id)
        row = run_row(tx, addition.run_id)
        name = f"tasks_added:{hashlib.sha256(addition.key.encode()).hexdigest()}"
        if earlier := _tasks_of_earlier_addition(tx, row.id, name):
            return earlier
        _refuse_unless_open(tx, row)
        numbers = _new_task_numbers(tx, row, addition)
        self._insert(tx, row, numbers)
        record = {"history_id": row.id, "name": name, "value": f"{numbers.start}:{numbers.stop}"}
        tx.execute(insert(history_properties).values(record))
        self._log(tx, row, addition, numbers, name)
        return numbers

    def _insert(self, connection: Connection, row: Row[Any], numbers: range) -> None:
        now = self._db.clock()
        cause = MAIN_JOB if row.status is RunStatus.INITIALIZING else DISPATCHER
        values = {"history_id": row.id, "queued_at": now, "cause": cause, "cause_since": now, **NEW_TASK}
        with counting(connection, row.id):
            for page in pages(numbers):
                connection.execute(insert(task_histories), [{"task": number, **values} for number in page])
        connection.execute(update(histories).where(histories.c.id == row.id).values(tasks=numbers.stop))

    def _log(self, connection: Connection, row: Row[Any], addition: Addition, numbers: range, name: str) -> None:
        run = RunRef(run_id=row.id, run_uid=row.run_uid, epoch=row.epoch)
        message = f"{len(numbers)} more, {numbers.start} to {numbers.stop - 1}"
        line = {"at": self._db.clock(), "event": "tasks added", "message": message}
        log(connection, run, name, line | {"actor": addition.actor, "door": addition.door})


def _tasks_of_earlier_addition(connection: Connection, run_id: int, name: str) -> range | None:
    """Return the task numbers recorded under the name; None without such an addition."""
    key = {"history_id": run_id, "name": name}
    value = connection.scalar(select(history_properties.c.value).filter_by(**key))
    return None if value is None else range(*map(int, value.split(":")))


def _refuse_unless_open(connection: Connection, row: Row[Any]) -> None:
    """Raise Conflict if the run is over, stops, or may end now because none of its tasks is alive."""
    if row.status.is_over:
        raise Conflict(f"run {row.id} is over ({row.status}, {row.reason}): it takes no more tasks")
    if row.intent is not Intent.RUN:
        raise Conflict(f"run {row.id} is being stopped: it takes no more tasks")
    alive = select(tasks.task).where(tasks.history_id == row.id, tasks.status.in_(ALIVE)).limit(1)
    if connection.scalar(alive) is None:
        raise Conflict(f"all tasks of run {row.id} are over and it is about to end: it takes no more tasks")


def _new_task_numbers(connection: Connection, row: Row[Any], addition: Addition) -> range:
    """Return the numbers after the run's last task. Raise BadInput if the run would have too many tasks."""
    last = connection.scalar(select(func.max(tasks.task)).where(tasks.history_id == row.id))
    first = int(last) + 1 if last is not None else 0
    if first + addition.count > addition.most_tasks:
        raise BadInput("count", f"run {row.id} has {first} tasks, this installation allows {addition.most_tasks}")
    return range(first, first + addition.count)
