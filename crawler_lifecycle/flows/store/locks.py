"""Locks on flows' rows, snapshots for readers, and lines in flows' timelines.

Locks are taken in one order: the flow, then members by number, then attempts. A flow is locked by its primary key
alone: two writers that lock a row through different indexes deadlock.
"""

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, TypeVarTuple

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, bindparam, func, insert, select, update

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.flow_schema import flow_logs, flows
from crawler_lifecycle.database.transactions import OnDatabase
from crawler_lifecycle.errors import Fenced, NotFound
from crawler_lifecycle.flows.rules.messages import FlowRef

P = ParamSpec("P")
T = TypeVar("T")
Columns = TypeVarTuple("Columns")
IN_ORDER = "FORCE INDEX (PRIMARY)"  # MySQL locks rows in its index's order
MOST_KNOWN = 10_000  # flows whose ids a process keeps
# the context may be large, and only few readers need the context
HEAD_COLUMNS = [column for column in flows.c if column is not flows.c.context]
# built once: to build a statement takes longer than its execution
FIND = select(flows.c.id).where(flows.c.uid == bindparam("of_uid"))
HEAD = select(*HEAD_COLUMNS).where(flows.c.id == bindparam("of_flow"), flows.c.uid == bindparam("of_uid"))
THIS_FLOW = update(flows).where(flows.c.id == bindparam("of_flow"))
NUMBER_ACT = THIS_FLOW.values(version=bindparam("number"))
LOCKED, SHARED = HEAD.with_for_update(), HEAD.with_for_update(read=True)


class OnFlows(OnDatabase):
    """Base class for adapters of flows. The class keeps the numbers of flows by their uids, which never change."""

    def __init__(self, db: Database) -> None:
        super().__init__(db)
        self._numbers: dict[str, int] = {}

    def number(self, connection: Connection, flow_uid: str) -> int:
        """Return the flow's primary key; raise NotFound without such a flow."""
        number = self._numbers.get(flow_uid)
        if number is None:
            number = connection.scalar(FIND, {"of_uid": flow_uid})
            if number is None:
                raise _no_flow(flow_uid)
            if len(self._numbers) >= MOST_KNOWN:
                self._numbers.clear()
            self._numbers[flow_uid] = number
        return number

    def head(self, connection: Connection, flow_uid: str, statement: Any = HEAD) -> Row[Any]:
        """Return the flow's row without its context. The statement may lock the row."""
        key = {"of_flow": self.number(connection, flow_uid), "of_uid": flow_uid}
        row = connection.execute(statement, key).one_or_none()
        if row is None:  # the flow was pruned
            self._numbers.pop(flow_uid, None)
            raise _no_flow(flow_uid)
        return row

    def lock(self, tx: Connection, flow_uid: str) -> Row[Any]:
        return self.head(tx, flow_uid, LOCKED)

    def lock_for_supervisor(self, tx: Connection, ref: FlowRef) -> Row[Any]:
        """Lock the flow's row for the supervisor; raise Fenced for an outdated supervisor."""
        row = self.lock(tx, ref.uid)
        fence(row, ref)
        return row


def fence(row: Row[Any], ref: FlowRef) -> None:
    if row.epoch != ref.epoch:
        raise Fenced(f"flow {row.flow_id!r} has another supervisor now (epoch {row.epoch}, ours is {ref.epoch})")


def number_act(tx: Connection, row: Row[Any], ref: FlowRef) -> int:
    """Raise the version for the supervisor's act, and return it. The caller holds the lock on the flow's row.

    The supervisor makes one act at a time, so all tries for an act have the same number. The number renews the row's
    time for changes, by which the audit sees a life.
    """
    version = ref.version + 1
    tx.execute(NUMBER_ACT, {"of_flow": row.id, "number": max(version, row.version)})  # a late try lowers no number
    return version


def has_lost_acts(row: Row[Any], ref: FlowRef) -> bool:
    """Return whether the database has lost acts by the supervisor, as after a restore from a backup."""
    return bool(row.version < ref.version)


S = TypeVar("S", bound=OnFlows)


def snapshot(method: Callable[Concatenate[S, Connection, P], T]) -> Callable[Concatenate[S, P], T]:
    """Make a method one transaction for reading, whose statements all read the same state of the database."""

    @wraps(method)
    def read(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._db.read() as connection:
            if connection.dialect.name == "mysql":  # SQLite's transactions read a snapshot anyhow
                connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            return method(self, connection, *args, **kwargs)

    return read


def add_line(
    tx: Connection,
    flow: int,
    at: datetime,
    event: str,
    message: str,
    *,
    actor: str | None = None,
    door: str | None = None,
) -> None:
    """Add a line to the flow's timeline. The caller holds the lock on the flow's row."""
    line = {"flow": flow, "at": at, "event": event, "message": message, "actor": actor, "door": door}
    tx.execute(insert(flow_logs), line)


def locking(query: Select[*Columns], table: Table) -> Select[*Columns]:
    """Let the query lock its rows of the table in the order of the primary key."""
    return query.with_hint(table, IN_ORDER, "mysql").with_for_update()


def without_index(column: ColumnElement[T]) -> ColumnElement[T]:
    """Hide the column from the planner: two writers that lock a row through different indexes deadlock."""
    return func.coalesce(column, "")


def _no_flow(flow_uid: str) -> NotFound:
    return NotFound(f"there is no flow with the uid {flow_uid}")
