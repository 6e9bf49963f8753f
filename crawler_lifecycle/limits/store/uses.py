"""The open runs' use: sums by scope, and later changes.

A transaction with a change in a run's use appends the change for the run's scopes. The transaction holds the lock on
the run's row and locks no sum, so ends, retries and stops never wait for another run. The admission lock's holder folds
many changes into the sums. A reader adds both.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    Table,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    select,
    text,
    union_all,
)

from crawler_lifecycle.database.pages import ROWS_IN_A_PAGE
from crawler_lifecycle.database.schema import (
    OWN_INSTALLATION,
    histories,
    history_labels,
    scope_changes,
    scope_sums,
    task_histories,
)
from crawler_lifecycle.database.transactions import OPEN_STATUSES
from crawler_lifecycle.limits.rules import OpenRun, Use, total_use
from crawler_lifecycle.model.limits import CRAWLER, INSTALLATION, LABEL
from crawler_lifecycle.model.naming import MAIN_TASK
from crawler_lifecycle.model.states import ALIVE, IN_CLUSTER, Intent, TaskStatus

runs, tasks, changes = histories.c, task_histories.c, scope_changes.c
MOST_CHANGES = 100  # a reader reads them all
MOST_COUNTED = 2500  # queued tasks
FIGURES = tuple(field.name for field in fields(Use))
IS_MAIN, IS_THERE = tasks.task == MAIN_TASK, tasks.status.in_(IN_CLUSTER)


def counted(condition: ColumnElement[bool]) -> ColumnElement[int]:
    """Count tasks under the condition."""
    return func.coalesce(func.sum(case((condition, 1), else_=0)), 0)


def open_runs(*more: ColumnElement[Any]) -> Select[Any]:
    """Return the statement for the installation's open runs with the figures for their use."""
    return (
        select(
            *(runs.id, runs.crawler, runs.intent, runs.admitted_at, runs.held_by, runs.max_parallel),
            counted(IS_MAIN).label("main_alive"),
            counted(and_(IS_MAIN, IS_THERE)).label("main_in_cluster"),
            counted(and_(~IS_MAIN, IS_THERE)).label("children_in_cluster"),
            counted(and_(~IS_MAIN, tasks.status == TaskStatus.QUEUED)).label("children_queued"),
            *more,
        )
        .join_from(histories, task_histories, and_(tasks.history_id == runs.id, tasks.status.in_(ALIVE)), isouter=True)
        .where(runs.status.in_(OPEN_STATUSES), runs.installation == OWN_INSTALLATION)
        .group_by(runs.id)
    )


def open_run(row: Row[Any], scopes: tuple[str, ...], **more: Any) -> OpenRun:
    """Return the run for a row from `open_runs`."""
    return OpenRun(
        run_id=row.id,
        scopes=scopes,
        is_admitted=row.admitted_at is not None,
        is_wanted=row.intent is Intent.RUN,
        held_by=row.held_by,
        max_parallel=row.max_parallel,
        main_is_alive=bool(row.main_alive),
        main_in_cluster=bool(row.main_in_cluster),
        children_in_cluster=int(row.children_in_cluster),
        children_queued=int(row.children_queued),
        **more,
    )


LABELS = func.json_extract(runs.request, "$.labels").label("labels")
ONE_RUN = open_runs(LABELS).where(runs.id == bindparam("of_run"))
_BOTH = union_all(
    *(
        select(table.c.scope, *(table.c[name] for name in FIGURES)).where(
            table.c.scope.in_(bindparam("scopes", expanding=True))
        )
        for table in (scope_sums, scope_changes)
    )
).subquery()
_SUMS = (func.sum(_BOTH.c[name]).label(name) for name in FIGURES)
USES = select(func.count().label("rows"), _BOTH.c.scope, *_SUMS).group_by(_BOTH.c.scope)
_WAITING = select(tasks.history_id).where(tasks.status == TaskStatus.QUEUED).limit(MOST_COUNTED).subquery()
USES_AND_WAITING = USES.add_columns(select(func.count()).select_from(_WAITING).scalar_subquery().label("waiting"))
SPAN = select(func.max(changes.id) - func.min(changes.id))
FOLDED = {
    "sqlite": text("DELETE FROM scope_changes WHERE id IN (SELECT value FROM json_each(:ids))"),
    # from the ids to their rows: otherwise MySQL may read the whole table, and wait for uncommitted changes
    "mysql": text(
        "DELETE scope_changes FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id BIGINT PATH '$')) AS page"
        " STRAIGHT_JOIN scope_changes ON scope_changes.id = page.id"
    ),
}


@contextmanager
def counting(tx: Connection, run_id: int) -> Iterator[None]:
    """Append the block's change in the run's use to the changes. The caller holds the lock on the run's row."""
    before = _use_of(tx, run_id)
    yield
    append_change(tx, before, _use_of(tx, run_id))


def append_change(tx: Connection, before: Mapping[str, Use], after: Mapping[str, Use]) -> None:
    """Append the change in the use of runs, by scope. The caller holds the locks on the runs' rows."""
    changes_by_scope = {
        scope: after.get(scope, Use()).plus(before.get(scope, Use()), -1) for scope in {**before, **after}
    }
    _append(tx, scope_changes, {scope: change for scope, change in changes_by_scope.items() if change != Use()})


def scopes_of(row: Row[Any]) -> tuple[str, ...]:
    """Return all scopes of a run, for a row with `LABELS`."""
    return (INSTALLATION, CRAWLER + row.crawler, *(LABEL + label for label in json.loads(row.labels)))


def _use_of(connection: Connection, run_id: int) -> dict[str, Use]:
    """Return the run's use by scope; empty if the run is not open."""
    return total_use(open_run(row, scopes_of(row)) for row in connection.execute(ONE_RUN, {"of_run": run_id}))


def uses(connection: Connection, scopes: Collection[str]) -> dict[str, Use]:
    """Return the open runs' use by scope, for these scopes. A single statement reads sums and changes at one moment."""
    return _by_scope(connection.execute(USES, {"scopes": list(scopes)}).all())


def uses_and_waiting(connection: Connection, scopes: Collection[str]) -> tuple[dict[str, Use], int]:
    """As `uses`, for the holder of the admission lock, who folds many changes.

    Also return the number of queued tasks, at most MOST_COUNTED.
    """
    rows = connection.execute(USES_AND_WAITING, {"scopes": list(scopes)}).all()
    if any(row.rows > MOST_CHANGES for row in rows):
        fold(connection)
    return _by_scope(rows), max((row.waiting for row in rows), default=MOST_COUNTED)


def _by_scope(rows: Iterable[Row[Any]]) -> dict[str, Use]:
    return {row.scope: Use(*(int(row._mapping[name]) for name in FIGURES)) for row in rows}


def are_many(connection: Connection) -> bool:
    """Return whether the changes have to be folded. The ids at both ends cost two rows."""
    return (connection.scalar(SPAN) or 0) >= MOST_CHANGES


def fold(connection: Connection) -> None:
    """Fold a page of changes into the sums. The caller holds the admission lock.

    Uncommitted changes are not seen, and stay.
    """
    page = connection.execute(select(scope_changes).order_by(changes.id).limit(ROWS_IN_A_PAGE)).all()
    if not page:
        return
    of_scopes = scope_sums.c.scope.in_({row.scope for row in page})
    sums = _added([*connection.execute(select(scope_sums).where(of_scopes)), *page])
    connection.execute(delete(scope_sums).where(of_scopes))
    _append(connection, scope_sums, sums)
    connection.execute(FOLDED[connection.dialect.name], {"ids": json.dumps([row.id for row in page])})


def miscounts(connection: Connection) -> dict[str, Use]:
    """Return the use missing from the sums by scope, in comparison with all open runs' rows.

    The connection reads a snapshot: rows and change from a transaction are both seen, or neither.
    """
    label = history_labels.c
    labels = defaultdict[int, list[str]](list)
    query = select(label.history_id, label.label).join_from(histories, history_labels, label.history_id == runs.id)
    for run_id, name in connection.execute(query.where(runs.status.in_(OPEN_STATUSES))):
        labels[run_id].append(LABEL + name)
    rows = connection.execute(open_runs())
    used = total_use(open_run(row, (INSTALLATION, CRAWLER + row.crawler, *labels[row.id])) for row in rows)
    counts = _added([*connection.execute(select(scope_sums)), *connection.execute(select(scope_changes))])
    missing = {scope: used[scope].plus(counts.get(scope, Use()), -1) for scope in {*used, *counts}}
    return {scope: use for scope, use in sorted(missing.items()) if use != Use()}


def correct(tx: Connection, missing: Mapping[str, Use]) -> None:
    """Append the missing use. An addition stays right after later changes."""
    _append(tx, scope_changes, missing)


def _append(tx: Connection, table: Table, uses_by_scope: Mapping[str, Use]) -> None:
    if uses_by_scope:
        tx.execute(insert(table), [{"scope": scope, **asdict(use)} for scope, use in uses_by_scope.items()])


def _added(rows: Iterable[Row[Any]]) -> dict[str, Use]:
    """Return the sum by scope. Scopes without use are left out."""
    sums = defaultdict[str, Use](Use)
    for row in rows:
        sums[row.scope] = sums[row.scope].plus(Use(*(row._mapping[name] for name in FIGURES)))
    return {scope: use for scope, use in sums.items() if use != Use()}
