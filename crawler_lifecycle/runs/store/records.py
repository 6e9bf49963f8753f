"""Reads of runs for people and doors: lists, details, timelines, tasks, and the latest changes for live views.

`run_figures` has the numbers for metrics; its statements read only open runs and pending exports, by indexes.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import cached_property

from sqlalchemy import Connection, func, select, update

from crawler_lifecycle.database import migrate
from crawler_lifecycle.database.schema import (
    exports,
    histories,
    history_logs,
    installation,
    removed_runs,
    scope_limits,
    task_histories,
)
from crawler_lifecycle.database.transactions import OPEN_STATUSES, OnDatabase, reading
from crawler_lifecycle.errors import NotFound, Removed, TemporaryError
from crawler_lifecycle.limits.store.limits import place_in_line
from crawler_lifecycle.model.notices import Notice
from crawler_lifecycle.model.records import (
    ALL_RUNS,
    Changed,
    CrawlerRuns,
    RunCounts,
    RunDetails,
    RunFilter,
    RunOverview,
    RunRecord,
    RunSummary,
    TaskOrder,
    TaskRecord,
)
from crawler_lifecycle.model.states import ExportKind, ExportState, TaskStatus
from crawler_lifecycle.model.usage import Usage, UsageBy
from crawler_lifecycle.runs.ports import FoundRuns, OccurrenceRun, RunFigures, WaitingRuns
from crawler_lifecycle.runs.rules.outcome import FAILURES_SHOWN
from crawler_lifecycle.runs.rules.verdict import FULL, OBSTACLE_PATIENCE, PATIENCE
from crawler_lifecycle.runs.store.exports import notices_of
from crawler_lifecycle.runs.store.lists import (
    count_open,
    counts_of_runs,
    failing_crawlers,
    found_runs,
    obstructed_runs,
    page_of_runs,
    page_of_tasks,
    runs_by_crawler,
    summaries_of,
    waiting_runs,
)
from crawler_lifecycle.runs.store.reading import (
    export_record,
    findings_of,
    log_record,
    run_record,
    task_records,
    with_explanations,
)
from crawler_lifecycle.runs.store.usage import usage_of

runs = histories.c
PAUSED_SCOPES = select(scope_limits.c.scope).where(scope_limits.c.paused_at.is_not(None))
IS_OPEN = runs.status.in_(OPEN_STATUSES)
BY_STATUS = select(runs.status, func.count().label("number")).where(IS_OPEN).group_by(runs.status)
LOOKS = select(func.min(runs.last_look_at), func.min(runs.next_look_at)).where(IS_OPEN)
QUEUED = select(func.min(runs.begun_at)).where(
    runs.held_by.is_not(None), runs.admitted_at.is_(None), runs.held_by.not_in(PAUSED_SCOPES)
)
EXPORTS = select(func.count(), func.min(runs.finished_at)).where(runs.export_state == ExportState.PENDING)
FAILED_EXPORTS = select(func.count()).where(runs.export_state == ExportState.FAILED)
# changes nothing, but a database without writes refuses the statement
SAME_INSTALLATION = update(installation).values(created_at=installation.c.created_at)
NO_WRITES = "no_writes"
KIND_ORDER = [str(kind) for kind in ExportKind]  # an end's event comes before the archive


def run_figures(connection: Connection, now: datetime) -> RunFigures:
    counts = {row.status: row.number for row in connection.execute(BY_STATUS)}
    looked_at, look_due_at = connection.execute(LOOKS).one()
    pending_exports, pending_since = connection.execute(EXPORTS).one()
    return RunFigures(
        open={status: counts.get(status, 0) for status in OPEN_STATUSES},
        queued_since=connection.scalar(QUEUED),
        looked_at=looked_at,
        look_due_at=look_due_at,
        pending_exports=pending_exports,
        export_pending_since=pending_since,
        failed_exports=connection.scalar(FAILED_EXPORTS) or 0,
        obstructed=obstructed_runs(connection, 0, now - OBSTACLE_PATIENCE).by_cause,
        failing_crawlers=len(failing_crawlers(connection, now - FAILURES_SHOWN)),
    )


class RunRecords(OnDatabase):
    """The methods in `runs.ports.Records` for people and doors."""

    def installation(self) -> str:
        # every process reads the installation first, and so refuses a database with an unknown schema
        migrate.check(self._db)
        return self._installation()

    @cached_property
    def uid(self) -> str:
        return self._installation()

    def check_write(self) -> None:
        try:
            self._db.transact(lambda tx: tx.execute(SAME_INSTALLATION), hurried=True)
        except TemporaryError as error:
            raise TemporaryError(f"the database takes no writes: {error.message}", cause=NO_WRITES) from error

    @reading
    def _installation(self, connection: Connection) -> str:
        uid: str = connection.execute(select(installation.c.uid)).scalar_one()
        return uid

    @reading
    def page(
        self,
        connection: Connection,
        chosen: RunFilter = ALL_RUNS,
        *,
        limit: int,
        before: int | None = None,
    ) -> list[RunSummary]:
        return page_of_runs(connection, chosen, limit, before)

    @reading
    def search(self, connection: Connection, chosen: RunFilter, *, limit: int, before: int | None = None) -> FoundRuns:
        return found_runs(connection, chosen, limit, before)

    @reading
    def counts(self, connection: Connection, chosen: RunFilter) -> RunCounts:
        return counts_of_runs(connection, chosen)

    @reading
    def by_crawler(self, connection: Connection, crawlers: Sequence[str]) -> list[CrawlerRuns]:
        return runs_by_crawler(connection, crawlers)

    @reading
    def usage(self, connection: Connection, by: UsageBy, since: datetime, until: datetime) -> Usage:
        return usage_of(connection, by, since, until)

    @reading
    def saturated(self, connection: Connection, limit: int) -> WaitingRuns:
        return waiting_runs(connection, FULL, limit, self._db.clock() - PATIENCE)

    @reading
    def obstructed(self, connection: Connection, limit: int) -> WaitingRuns:
        return obstructed_runs(connection, limit, self._db.clock() - OBSTACLE_PATIENCE)

    @reading
    def failing_crawlers(self, connection: Connection) -> list[CrawlerRuns]:
        return failing_crawlers(connection, self._db.clock() - FAILURES_SHOWN)

    @reading
    def count_open(self, connection: Connection) -> int | None:
        return count_open(connection)

    @reading
    def details(self, connection: Connection, run_id: int) -> RunDetails:
        overview = _overview(connection, run_id)
        tasks = select(task_histories).filter_by(history_id=run_id).order_by(task_histories.c.task)
        return RunDetails(tasks=task_records(connection, tasks), **dict(overview))

    @reading
    def overview(self, connection: Connection, run_id: int) -> RunOverview:
        return _overview(connection, run_id)

    @reading
    def tasks(
        self,
        connection: Connection,
        run_id: int,
        *,
        first: int,
        limit: int,
        status: TaskStatus | None = None,
        order: TaskOrder = TaskOrder.TASK,
    ) -> list[TaskRecord]:
        return task_records(connection, page_of_tasks(run_id, first, limit, status, order, self._db.clock()))

    @reading
    def latest_of(self, connection: Connection, workflow_id: str) -> RunRecord | None:
        newest = select(histories.c.id).filter_by(workflow_id=workflow_id).order_by(histories.c.id.desc()).limit(1)
        run_id = connection.scalar(newest)
        return None if run_id is None else run_record(connection, run_id)

    @reading
    def run_id(self, connection: Connection, run_uid: str) -> int:
        query = select(histories.c.id).where(histories.c.run_uid == run_uid)
        run_id = connection.execute(query).scalar_one_or_none()
        if run_id is None:
            removed = connection.execute(select(removed_runs).where(removed_runs.c.run_uid == run_uid)).one_or_none()
            if removed is not None:
                raise Removed(f"run {removed.run_id} ({run_uid}) was removed by retention on {removed.removed_on}")
            raise NotFound(f"there is no run with run_uid {run_uid}")
        return int(run_id)

    @reading
    def scheduled_runs(
        self, connection: Connection, first_workflow_id: str, last_workflow_id: str
    ) -> list[OccurrenceRun]:
        query = select(runs.workflow_id, runs.first_execution_run_id, runs.created_at, runs.finished_at)
        scheduled = query.where(runs.workflow_id.between(first_workflow_id, last_workflow_id)).order_by(runs.id)
        return [OccurrenceRun(*row) for row in connection.execute(scheduled)]


def _overview(connection: Connection, run_id: int) -> RunOverview:
    log = select(history_logs).filter_by(history_id=run_id).order_by(history_logs.c.id)
    run_exports = [export_record(row) for row in connection.execute(select(exports).filter_by(history_id=run_id))]
    (run,) = with_explanations(connection, [run_record(connection, run_id)])
    return RunOverview(
        run=run,
        place=place_in_line(connection, run),
        log=[log_record(row) for row in connection.execute(log)],
        exports=sorted(run_exports, key=lambda export: (export.end, KIND_ORDER.index(export.kind))),
        findings=findings_of(connection, run.run_uid),
    )


class LiveChanges(OnDatabase):
    """The methods in `runs.ports.Records` for live views."""

    @reading
    def latest_change(self, connection: Connection) -> datetime | None:
        changed_at: datetime | None = connection.scalar(select(func.max(runs.changed_at)))
        return changed_at

    @reading
    def changed_since(
        self,
        connection: Connection,
        moment: datetime | None,
        limit: int,
        only_run_id: int | None = None,
        *,
        flows: bool = True,
    ) -> list[Changed]:
        query = select(runs.id, runs.changed_at).order_by(runs.changed_at.desc(), runs.id.desc()).limit(limit)
        if not flows:
            query = query.where(runs.flow_uid.is_(None))
        if moment is not None:
            query = query.where(runs.changed_at >= moment)
        if only_run_id is not None:
            query = query.where(runs.id == only_run_id)
        return [Changed(run_id=row.id, changed_at=row.changed_at) for row in connection.execute(query)]

    @reading
    def summaries(self, connection: Connection, run_ids: Sequence[int]) -> list[RunSummary]:
        return summaries_of(connection, run_ids)

    @reading
    def figures(self, connection: Connection) -> RunFigures:
        return run_figures(connection, self._db.clock())

    @reading
    def notices_of(self, connection: Connection, run_ids: Sequence[int]) -> list[Notice]:
        return notices_of(connection, run_ids)
