"""The rows that admission decides about: open runs with their tasks, and the limits of their scopes.

`lock_admission` comes first in every transaction that admits a run or claims a queued task: what the transaction counts
stays true until its end, so no limit is exceeded.
"""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, case, exists, func, or_, select, update

from crawler_lifecycle.adapters.sql.schema import (
    OWN_INSTALLATION,
    histories,
    history_labels,
    installation,
    scope_limits,
    task_histories,
)
from crawler_lifecycle.adapters.sql.transactions import OPEN_STATUSES
from crawler_lifecycle.contract.limits import CRAWLER, INSTALLATION, LABEL, VALUES, ScopeLimits
from crawler_lifecycle.contract.states import ALIVE, IN_CLUSTER, Intent, RunStatus, TaskStatus
from crawler_lifecycle.domain.admission import Hold, OpenRun, pause_in
from crawler_lifecycle.domain.naming import MAIN_TASK
from crawler_lifecycle.domain.pacing import LONGEST_SILENCE
from crawler_lifecycle.errors import Conflict

runs, tasks, limits = histories.c, task_histories.c, scope_limits.c
MOST_TASKS = 1000  # limit for the installation's tasks in the cluster, unless a setting or a row has another one
LIMIT_COLUMNS = [limits[name] for name in ScopeLimits.model_fields]
_HAS_VALUE = or_(*(limits[name].is_not(None) for name in (*VALUES, "paused_at")))  # a row may have no value left


def lock_admission(connection: Connection) -> None:
    """Let one transaction at a time admit runs and claim queued tasks. No run's row may be locked before."""
    connection.execute(update(installation).values(uid=installation.c.uid))


def limits_on_record(connection: Connection, most_tasks: int) -> dict[str, ScopeLimits]:
    """Return the limits by scope. `most_tasks`: the installation's limit for tasks unless a row says otherwise."""
    rows = connection.execute(select(*LIMIT_COLUMNS).where(_HAS_VALUE))
    on_record = {row.scope: ScopeLimits(**row._mapping) for row in rows}
    own = on_record.get(INSTALLATION, ScopeLimits(scope=INSTALLATION))
    if own.tasks is None:
        own = own.model_copy(update={"tasks": most_tasks})
    return {INSTALLATION: own, **{scope: row for scope, row in on_record.items() if scope != INSTALLATION}}


@dataclass(frozen=True, slots=True)
class Situation:
    """The limits, and the installation's open runs with their rows, oldest first."""

    limits: dict[str, ScopeLimits]
    runs: list[OpenRun]
    rows: dict[int, Row[Any]]  # by RunID

    def run(self, run_id: int) -> OpenRun:
        """Return the open run, or raise Conflict if another installation began the run."""
        for run in self.runs:
            if run.run_id == run_id:
                return run
        raise Conflict(f"run {run_id} is no open run of this installation")

    def pauses(self) -> dict[int, Hold]:
        """Return each hold from a paused scope, by RunID."""
        holds = ((run.run_id, pause_in(run.scopes, self.limits)) for run in self.runs)
        return {run_id: hold for run_id, hold in holds if hold}


def situation(
    connection: Connection, by_scope: dict[str, ScopeLimits], now: datetime, condition: ColumnElement[bool]
) -> Situation:
    """Return the open runs whose rows fulfil the condition."""
    labels = _limited_labels(connection, by_scope, condition)
    rows = connection.execute(_open_runs(now).where(condition)).all()
    open_runs = [_open_run(row, labels[row.id], by_scope) for row in rows]
    return Situation(by_scope, open_runs, {row.id: row for row in rows})


def has_places() -> ColumnElement[bool]:
    """Return the condition for runs with a permit or a job. A job from before a pause needs no permit."""
    in_cluster = select(tasks.history_id).where(tasks.status.in_(IN_CLUSTER)).correlate(None)
    return or_(runs.admitted_at.is_not(None), runs.id.in_(in_cluster))


def _open_runs(now: datetime) -> Select[Any]:
    is_main, in_cluster = tasks.task == MAIN_TASK, tasks.status.in_(IN_CLUSTER)
    is_queued = tasks.status == TaskStatus.QUEUED
    is_ready = and_(is_queued, has_no_pause(now))
    columns = (runs.id, runs.crawler, runs.status, runs.priority, runs.intent, runs.admitted_at, runs.max_parallel)
    hold = (runs.held_by, runs.waiting_cause, runs.waiting_message)
    return (
        select(
            *columns,
            *hold,
            is_deployed_here(now).label("is_deployable"),
            _count(is_main).label("main_alive"),
            _count(and_(is_main, in_cluster)).label("main_in_cluster"),
            _count(and_(is_main, is_ready)).label("main_ready"),
            _count(and_(~is_main, in_cluster)).label("children_in_cluster"),
            _count(and_(~is_main, is_queued)).label("children_queued"),
            _count(and_(~is_main, is_ready, runs.status == RunStatus.PROCESSING)).label("children_ready"),
        )
        .join_from(histories, task_histories, and_(tasks.history_id == runs.id, tasks.status.in_(ALIVE)), isouter=True)
        .where(runs.status.in_(OPEN_STATUSES), runs.installation == OWN_INSTALLATION)
        .group_by(runs.id)
        .order_by(runs.id)
    )


def _count(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.coalesce(func.sum(case((condition, 1), else_=0)), 0)


def has_no_pause(now: datetime) -> ColumnElement[bool]:
    """Return the condition for tasks outside the pause before a retry."""
    return or_(tasks.deploy_after.is_(None), tasks.deploy_after <= now)


def is_deployed_here(now: datetime) -> ColumnElement[bool]:
    """Return the condition for runs whose tasks the dispatcher deploys.

    The run is PROCESSING, or waits for its permit; before, its supervisor tries to deploy the main task. Its supervisor
    lives, and the installation is ours.
    """
    waits_for_us = or_(runs.status == RunStatus.PROCESSING, runs.held_by.is_not(None))
    is_own = and_(runs.status.in_(OPEN_STATUSES), runs.installation == OWN_INSTALLATION)
    return and_(is_own, waits_for_us, is_watched(now))


def is_watched(now: datetime) -> ColumnElement[bool]:
    """Return the condition for runs with a living supervisor: the next look is not overdue by LONGEST_SILENCE.

    If no look is planned yet, the supervisor began, or the run started, within this time. A run without a living
    supervisor gets no more jobs: its row may come from a backup, and the run may be over since.
    """
    limit = now - LONGEST_SILENCE
    is_young = or_(runs.supervisor_began_at > limit, runs.started_at > limit)
    return or_(runs.next_look_at > limit, and_(runs.next_look_at.is_(None), is_young))


def _limited_labels(
    connection: Connection, by_scope: dict[str, ScopeLimits], condition: ColumnElement[bool]
) -> dict[int, list[str]]:
    """Return the limited scopes by RunID, for the chosen open runs."""
    scopes = defaultdict[int, list[str]](list)
    if any(scope.startswith(LABEL) for scope in by_scope):
        label = history_labels.c
        query = select(label.history_id, label.label).join_from(histories, history_labels, label.history_id == runs.id)
        of_open_runs = query.where(runs.status.in_(OPEN_STATUSES), condition, _is_limited())
        for run_id, name in connection.execute(of_open_runs):
            if LABEL + name in by_scope:  # a limit may be set after a reader has read the limits
                scopes[run_id].append(LABEL + name)
    return scopes


def _is_limited() -> ColumnElement[bool]:
    """Return the condition for labels with a limit."""
    return (LABEL + history_labels.c.label).in_(select(limits.scope).where(_HAS_VALUE))


def has_limited_label() -> ColumnElement[bool]:
    """Return the condition for runs with a limited label."""
    return exists().where(history_labels.c.history_id == runs.id, _is_limited()).correlate(histories)


def _open_run(row: Row[Any], labels: list[str], by_scope: dict[str, ScopeLimits]) -> OpenRun:
    crawler = [scope for scope in (CRAWLER + row.crawler,) if scope in by_scope]
    weighted = sorted(label for label in labels if by_scope[label].weight)
    return OpenRun(
        run_id=row.id,
        scopes=(INSTALLATION, *crawler, *sorted(labels)),
        priority=row.priority,
        share=weighted[0] if weighted else "",
        is_admitted=row.admitted_at is not None,
        is_wanted=row.intent is Intent.RUN,
        is_deployable=bool(row.is_deployable),
        held_by=row.held_by,
        max_parallel=row.max_parallel,
        main_is_alive=bool(row.main_alive),
        main_in_cluster=bool(row.main_in_cluster),
        main_is_ready=bool(row.main_ready),
        children_in_cluster=int(row.children_in_cluster),
        children_queued=int(row.children_queued),
        children_ready=int(row.children_ready),
    )
