"""Decorators that make a method one transaction, and functions that lock a run's row in a transaction.

Every write to a run begins its transaction with `fence`, `lock_run` or `lock_and_get_intent`.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Column, ColumnElement, Connection, bindparam, func, insert, select, update

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.failures import Contended
from crawler_lifecycle.database.schema import histories, history_logs, history_properties, removed_runs
from crawler_lifecycle.errors import Fenced, NotFound, Removed
from crawler_lifecycle.model.naming import event_id
from crawler_lifecycle.model.run_plan import RunRef
from crawler_lifecycle.model.states import Intent, RunStatus

OPEN_STATUSES = tuple(status for status in RunStatus if not status.is_over)
Assignment = tuple[Column[Any], Any]


class OnDatabase:
    """Base class for adapters: an object to read and write rows in a database."""

    def __init__(self, db: Database) -> None:
        self._db = db


S = TypeVar("S", bound=OnDatabase)
P = ParamSpec("P")
T = TypeVar("T")


def transaction(method: Callable[Concatenate[S, Connection, P], T]) -> Callable[Concatenate[S, P], T]:
    """Make a method one transaction for writing. Callers leave out the connection.

    The transaction is committed when the method returns and rolled back when the method raises. If another transaction
    was in the way, the whole method is called again, so the method has no effects beyond its statements.
    """

    @wraps(method)
    def transacted(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._db.transact(lambda tx: method(self, tx, *args, **kwargs))

    return transacted


def reading(method: Callable[Concatenate[S, Connection, P], T]) -> Callable[Concatenate[S, P], T]:
    """Make a method one transaction for reading. Callers leave out the connection."""

    @wraps(method)
    def read(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._db.read() as connection:
            return method(self, connection, *args, **kwargs)

    return read


def missing_run(connection: Connection, run_id: int) -> NotFound:
    """Return the error for a RunID without a row: Removed with the date if retention has removed the run."""
    removed_on = connection.scalar(select(removed_runs.c.removed_on).where(removed_runs.c.run_id == run_id))
    if removed_on is None:
        return NotFound(f"there is no run {run_id}")
    return Removed(f"run {run_id} was removed by retention on {removed_on}")


def fence(connection: Connection, run: RunRef, *assignments: Assignment) -> None:
    """Lock the run's row for its supervisor, and write the assignments there. Raise Fenced for another supervisor.

    The epoch gets its old value, so that the row is locked even without assignments. MySQL assigns from left to right:
    if a value is computed from another column's old value, the caller puts its assignment first.
    """
    own_row = OWN_ROW.ordered_values((histories.c.epoch, histories.c.epoch), *assignments) if assignments else LOCKING
    if connection.execute(own_row, {"of_run": run.run_id, "of_uid": run.run_uid, "of_epoch": run.epoch}).rowcount:
        return
    epoch = connection.scalar(select(histories.c.epoch).where(*THIS_RUN), {"of_run": run.run_id, "of_uid": run.run_uid})
    if epoch is None:
        raise NotFound(f"there is no run {run.run_id} with the uid {run.run_uid}")
    raise Fenced(f"run {run.run_id} has another supervisor now (epoch {epoch}, ours is {run.epoch})")


def fence_unchanged(connection: Connection, run: RunRef, changed_at: datetime, values: Mapping[str, Any]) -> None:
    """As `fence`, with values. Raise Contended if the run or its tasks have changed since `changed_at`."""
    own = {"of_run": run.run_id, "of_uid": run.run_uid, "of_epoch": run.epoch}
    if not connection.execute(UNCHANGED, {**own, "of_change": changed_at, **values}).rowcount:
        fence(connection, run)
        raise Contended(f"run {run.run_id} has changed")


def lock_run(connection: Connection, run_id: int) -> None:
    """Lock the run's row for a caller without an epoch: a door, or a deployer with its claim.

    The lock is an UPDATE, because every UPDATE sets `changed_at`: live views then notice the caller's writes to tasks.
    """
    connection.execute(LOCKED, {"of_run": run_id})


def lock_and_get_intent(connection: Connection, run_id: int) -> Intent:
    """Lock the run's row and return its intent, which does not change before the transaction ends."""
    lock_run(connection, run_id)
    intent = connection.scalar(INTENT, {"of_run": run_id})
    if intent is None:
        raise missing_run(connection, run_id)
    return Intent(intent)


def _without_index(column: Column[str]) -> ColumnElement[str]:
    """Hide the column from the planner: two writers that lock a run through different indexes deadlock."""
    return func.lower(column)


# built once: to build a statement takes longer than its execution
THIS_RUN = (
    histories.c.id == bindparam("of_run"),
    _without_index(histories.c.run_uid) == bindparam("of_uid"),
)
OWN_ROW = update(histories).where(*THIS_RUN, histories.c.epoch == bindparam("of_epoch"))
LOCKING = OWN_ROW.values(epoch=histories.c.epoch)
UNCHANGED = LOCKING.where(histories.c.changed_at == bindparam("of_change"))
# values of columns are given to the execution: this costs less than a statement with values
RUN = update(histories).where(histories.c.id == bindparam("of_run"))
LOCKED = RUN.values(epoch=histories.c.epoch)
INTENT = select(histories.c.intent).where(histories.c.id == bindparam("of_run"))
PROPERTY = update(history_properties).where(
    history_properties.c.history_id == bindparam("of_run"), history_properties.c.name == bindparam("of_name")
)
LINE_ID = select(history_logs.c.id).where(
    history_logs.c.history_id == bindparam("of_run"), history_logs.c.entry_uid == bindparam("of_line")
)


def log(connection: Connection, run: RunRef, key: str, values: dict[str, Any], *, is_new: bool = False) -> None:
    """Add a line to the run's timeline unless the key is logged already. The caller holds the lock on the run's row.

    `is_new`: the caller knows that the key is not logged yet.
    """
    if is_new or not is_logged(connection, run, key):
        uid = _line_uid(run, key)
        connection.execute(insert(history_logs), {"history_id": run.run_id, "entry_uid": uid, **values})


def keep_property(connection: Connection, run: RunRef, name: str, value: str, *, is_new: bool = False) -> None:
    """Write the property, replacing an earlier value. The caller holds the lock on the run's row.

    `is_new`: the caller knows that there is no earlier value.
    """
    earlier_value = {"of_run": run.run_id, "of_name": name, "value": value}
    if is_new or not connection.execute(PROPERTY, earlier_value).rowcount:
        connection.execute(insert(history_properties), {"history_id": run.run_id, "name": name, "value": value})


def is_logged(connection: Connection, run: RunRef, key: str) -> bool:
    """Return whether the run's timeline has a line with the key."""
    return connection.scalar(LINE_ID, {"of_run": run.run_id, "of_line": _line_uid(run, key)}) is not None


def _line_uid(run: RunRef, key: str) -> str:
    return event_id(run.run_uid, f"log:{key}")
