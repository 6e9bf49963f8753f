"""The rows that admission decides about: open runs with their tasks, and the limits of their scopes.

`lock_admission` comes first in every transaction that admits a run or claims a queued task: what the transaction counts
stays true until its end, so no limit is exceeded.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, bindparam, exists, or_, select, update

from crawler_lifecycle.base.pacing import LONGEST_SILENCE
from crawler_lifecycle.database.pages import pages
from crawler_lifecycle.database.schema import (
    OWN_INSTALLATION,
    histories,
    history_labels,
    installation,
    scope_limits,
    task_histories,
)
from crawler_lifecycle.database.transactions import OPEN_STATUSES
from crawler_lifecycle.limits.rules import Hold, OpenRun, pause_in
from crawler_lifecycle.limits.store.uses import IS_MAIN, counted, open_run, open_runs, scopes_of
from crawler_lifecycle.model.limits import CRAWLER, INSTALLATION, LABEL, VALUES, ScopeLimits
from crawler_lifecycle.model.states import RunStatus, TaskStatus

runs, tasks, limits = histories.c, task_histories.c, scope_limits.c
MOST_TASKS = 1000  # limit for the installation's tasks in the cluster, unless a setting or a row has another one
_HAS_VALUE = or_(*(limits[name].is_not(None) for name in (*VALUES, "paused_at")))  # a row may have no value left
_LIMITS = select(*(limits[name] for name in ScopeLimits.model_fields))
_LOCKED = update(installation).values(uid=installation.c.uid)
# the installation's row is locked first: the limits are those after the wait for the lock
_LOCKED_LIMITS = _LIMITS.select_from(installation.outerjoin(scope_limits, _HAS_VALUE)).with_for_update()


def has_no_pause(now: datetime | ColumnElement[datetime]) -> ColumnElement[bool]:
    """Return the condition for tasks outside the pause before a retry."""
    return or_(tasks.deploy_after.is_(None), tasks.deploy_after <= now)


def at(now: datetime) -> dict[str, datetime]:
    """Return the parameters for the conditions below."""
    return {"of_now": now, "of_silence": now - LONGEST_SILENCE}


NOW, SILENCE = (bindparam(name, type_=tasks.deploy_after.type) for name in at(datetime.now(UTC)))
# Runs with a living supervisor: the next look is not overdue by LONGEST_SILENCE. If no look is planned yet, the
# supervisor began, or the run started, within this time. A run without a living supervisor gets no more jobs: its row
# may come from a backup, and the run may be over since.
_IS_YOUNG = or_(runs.supervisor_began_at > SILENCE, runs.started_at > SILENCE)
_IS_WATCHED = or_(runs.next_look_at > SILENCE, and_(runs.next_look_at.is_(None), _IS_YOUNG))
# Runs whose tasks the dispatcher deploys. The run is PROCESSING, or waits for its permit; before, its supervisor tries
# to deploy the main task. Its supervisor lives, and the installation is ours.
IS_OURS = and_(runs.installation == OWN_INSTALLATION, _IS_WATCHED)
IS_DEPLOYED_HERE = and_(
    *(runs.status.in_(OPEN_STATUSES), IS_OURS),
    or_(runs.status == RunStatus.PROCESSING, runs.held_by.is_not(None)),
)
_IS_LIMITED = (LABEL + history_labels.c.label).in_(select(limits.scope).where(_HAS_VALUE))
HAS_LIMITED_LABEL = exists().where(history_labels.c.history_id == runs.id, _IS_LIMITED).correlate(histories)
_IS_READY = and_(tasks.status == TaskStatus.QUEUED, has_no_pause(NOW))
_IS_CHOSEN = runs.id.in_(bindparam("run_ids", expanding=True))

_LIMITED_LABELS = (
    select(history_labels.c.history_id, history_labels.c.label)
    .join_from(histories, history_labels, history_labels.c.history_id == runs.id)
    .where(_IS_CHOSEN, _IS_LIMITED)
)


def chosen_runs(*more: ColumnElement[Any]) -> Select[Any]:
    """Return the statement for open runs among `run_ids`."""
    return (
        open_runs(
            *(runs.status, runs.priority, runs.waiting_cause, runs.waiting_message),
            IS_DEPLOYED_HERE.label("is_deployable"),
            counted(and_(IS_MAIN, _IS_READY)).label("main_ready"),
            counted(and_(~IS_MAIN, _IS_READY, runs.status == RunStatus.PROCESSING)).label("children_ready"),
            *more,
        )
        .where(_IS_CHOSEN)
        .order_by(runs.id)
    )


_CHOSEN_RUNS = chosen_runs()


def lock_admission(connection: Connection) -> None:
    """Let one transaction at a time admit runs and claim queued tasks. No run's row may be locked before."""
    connection.execute(_LOCKED)


def limits_on_record(connection: Connection, most_tasks: int) -> dict[str, ScopeLimits]:
    """Return the limits by scope. `most_tasks`: the installation's limit for tasks unless a row says otherwise."""
    return _limits(connection.execute(_LIMITS.where(_HAS_VALUE)), most_tasks)


def limits_under_lock(connection: Connection, most_tasks: int) -> dict[str, ScopeLimits]:
    """Take the lock of `lock_admission`, and return the limits, in one statement."""
    return _limits(connection.execute(_LOCKED_LIMITS), most_tasks)


def _limits(rows: Iterable[Row[Any]], most_tasks: int) -> dict[str, ScopeLimits]:
    on_record = {row.scope: ScopeLimits(**row._mapping) for row in rows if row.scope is not None}
    own = on_record.get(INSTALLATION, ScopeLimits(scope=INSTALLATION))
    if own.tasks is None:
        own = own.model_copy(update={"tasks": most_tasks})
    return {INSTALLATION: own, **{scope: row for scope, row in on_record.items() if scope != INSTALLATION}}


@dataclass(frozen=True, slots=True)
class Situation:
    """The limits, and open runs of the installation with their rows, oldest first."""

    limits: dict[str, ScopeLimits]
    runs: list[OpenRun]
    rows: dict[int, Row[Any]]  # by RunID

    def pauses(self) -> dict[int, Hold]:
        """Return each hold from a paused scope, by RunID."""
        holds = ((run.run_id, pause_in(run.scopes, self.limits)) for run in self.runs)
        return {run_id: hold for run_id, hold in holds if hold}


def situation(
    connection: Connection,
    by_scope: dict[str, ScopeLimits],
    now: datetime,
    run_ids: Iterable[int],
    statement: Select[Any] = _CHOSEN_RUNS,
    **more: Any,
) -> Situation:
    """Return the open runs among these runs. `more`: further parameters of a statement from `chosen_runs`."""
    rows, open_ones = dict[int, Row[Any]](), list[OpenRun]()
    for page in pages(sorted(run_ids)):
        labels = _limited_labels(connection, by_scope, page)
        for row in connection.execute(statement, {"run_ids": page, **at(now), **more}):
            rows[row.id] = row
            open_ones.append(_open_run(row, labels[row.id], by_scope))
    return Situation(by_scope, open_ones, rows)


def asking_run(row: Row[Any], by_scope: dict[str, ScopeLimits]) -> OpenRun:
    """Return the open run for a row with `LABELS`."""
    labels = [scope for scope in scopes_of(row) if scope.startswith(LABEL) and scope in by_scope]
    return _open_run(row, labels, by_scope)


def _limited_labels(
    connection: Connection, by_scope: dict[str, ScopeLimits], run_ids: Sequence[int]
) -> dict[int, list[str]]:
    """Return the limited scopes by RunID, for the chosen runs."""
    scopes = defaultdict[int, list[str]](list)
    if any(scope.startswith(LABEL) for scope in by_scope):
        for run_id, name in connection.execute(_LIMITED_LABELS, {"run_ids": run_ids}):
            if LABEL + name in by_scope:  # a limit may be set after a reader has read the limits
                scopes[run_id].append(LABEL + name)
    return scopes


def _open_run(row: Row[Any], labels: list[str], by_scope: dict[str, ScopeLimits]) -> OpenRun:
    crawler = [scope for scope in (CRAWLER + row.crawler,) if scope in by_scope]
    weighted = sorted(label for label in labels if by_scope[label].weight)
    return open_run(
        row,
        (INSTALLATION, *crawler, *sorted(labels)),
        priority=row.priority,
        share=weighted[0] if weighted else "",
        is_deployable=bool(row.is_deployable),
        main_is_ready=bool(row.main_ready),
        children_ready=int(row.children_ready),
    )
