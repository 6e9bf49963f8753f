"""Reads for audits: open runs, expired claims, and pending deliveries.

Audits read large tables, so runs come in pages by RunID, with few columns, and every query follows an index.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, func, or_, select, union_all

from crawler_lifecycle.database.pages import pages
from crawler_lifecycle.database.schema import (
    OWN_INSTALLATION,
    exports,
    histories,
    history_logs,
    history_properties,
    task_histories,
)
from crawler_lifecycle.database.transactions import OPEN_STATUSES, OnDatabase, reading
from crawler_lifecycle.model.naming import event_id
from crawler_lifecycle.model.notices import NoticeKind
from crawler_lifecycle.model.states import ExportState, Report, RunStatus, TaskStatus
from crawler_lifecycle.model.supervision import AuditedRun
from crawler_lifecycle.runs.ports import EndDeliveries, ExpiredClaims
from crawler_lifecycle.runs.store.exports import NOTICE_PREFIX, notice_property

runs = histories.c
task_rows = task_histories.c
FINAL_STATUSES = tuple(status for status in RunStatus if status.is_over)
NOT_EXPORTED = (ExportState.PENDING, ExportState.FAILED)
CLOSING_KINDS = (NoticeKind.FINISHED, NoticeKind.STOPPED)
# events in the timeline: a notice was not delivered, and a later try delivered the notice
UNDELIVERED, DELIVERED = "undelivered", "delivered"
BEGINNING_OF_TIME = datetime.min.replace(tzinfo=UTC)
RUN_FIELDS = sorted(AuditedRun.__dataclass_fields__.keys() - {"run_id"})
RUN_COLUMNS = [runs.id, runs.supervisor_began_at, *(runs[name] for name in RUN_FIELDS)]


class AuditedRuns(OnDatabase):
    """The methods in `runs.ports.Records` for audits."""

    @reading
    def open_runs(self, connection: Connection, after: int, limit: int) -> tuple[list[AuditedRun], int | None]:
        """Return a page of open runs after the RunID `after`, and the next page's `after`: None for the last page."""
        run_ids = connection.scalars(_open_run_ids(after, limit)).all()
        rows = connection.execute(_select_own_runs().where(runs.id.in_(run_ids)).order_by(runs.id))
        return [_audited_run(row) for row in rows], _start_of_next_page(run_ids, limit)

    @reading
    def audited_by_id(self, connection: Connection, run_ids: Collection[int]) -> dict[int, AuditedRun]:
        return {run.run_id: run for run in _runs_with(connection, runs.id, sorted(set(run_ids)))}

    @reading
    def audited_by_uid(self, connection: Connection, run_uids: Collection[str]) -> dict[str, AuditedRun]:
        return {run.run_uid: run for run in _runs_with(connection, runs.run_uid, sorted(set(run_uids)))}

    @reading
    def attempts(self, connection: Connection, run_id: int, tasks: Collection[int]) -> dict[int, int]:
        """Return the last attempt of every given task. Unknown tasks are left out."""
        attempts: dict[int, int] = {}
        for page in pages(sorted(set(tasks))):
            query = select(task_rows.task, task_rows.attempt).where(
                task_rows.history_id == run_id, task_rows.task.in_(page)
            )
            attempts |= {row.task: row.attempt for row in connection.execute(query)}
        return attempts

    @reading
    def expired_claims(
        self, connection: Connection, run_ids: Collection[int], before: datetime
    ) -> dict[int, ExpiredClaims]:
        """Return, by run, the tasks with claims that expired before the given time."""
        is_expired = (task_rows.status == TaskStatus.DEPLOYING, task_rows.claim_expires_at < before)
        tasks: dict[int, list[int]] = defaultdict(list)
        first_expiry: dict[int, datetime] = {}
        for page in pages(sorted(set(run_ids))):
            query = select(task_rows.history_id, task_rows.task, task_rows.claim_expires_at).where(
                *is_expired, task_rows.history_id.in_(page)
            )
            for run_id, task, expired_at in connection.execute(query.order_by(task_rows.history_id, task_rows.task)):
                tasks[run_id].append(task)
                first_expiry[run_id] = min(expired_at, first_expiry.get(run_id, expired_at))
        return {run_id: ExpiredClaims(tasks[run_id], first_expiry[run_id]) for run_id in tasks}

    @reading
    def owed_deliveries(
        self, connection: Connection, after: int, limit: int, noticed_since: datetime
    ) -> tuple[list[EndDeliveries], int | None]:
        """Return a page of ends that may have a pending delivery, and the next page's `after`: None for the last page.

        `noticed_since` limits the page to later failures of notices, and to later ends without a closing notice.
        Unfinished exports count however old they are.
        """
        run_ids = _run_ids_with_deliveries(connection, after, limit, noticed_since)
        deliveries = [item for item in _deliveries(connection, run_ids, noticed_since) if _may_be_owed(item)]
        return deliveries, _start_of_next_page(run_ids, limit)

    @reading
    def deliveries(self, connection: Connection, run_id: int) -> EndDeliveries | None:
        """Return the deliveries of the run, however old its end is; None if the run is not over."""
        deliveries = _deliveries(connection, [run_id], BEGINNING_OF_TIME)
        return deliveries[0] if deliveries else None


def _runs_with(connection: Connection, column: ColumnElement[Any], values: list[Any]) -> Iterable[AuditedRun]:
    for page in pages(values):
        yield from (_audited_run(row) for row in connection.execute(_select_own_runs().where(column.in_(page))))


def _open_run_ids(after: int, limit: int) -> Select[Any]:
    """Return the statement for the RunIDs of a page: the first `limit` open runs after the RunID `after`.

    The index by status is sorted by RunID only within a status, so the statement has a part for every status. Any other
    form reads and sorts all open runs, or walks through all runs that are over.
    """
    page_of_each_status = [
        select(runs.id)
        .where(runs.status == status, runs.id > after, runs.installation == OWN_INSTALLATION)
        .order_by(runs.id)
        .limit(limit)
        .subquery()
        for status in OPEN_STATUSES
    ]
    run_ids = union_all(*(select(page.c.id) for page in page_of_each_status)).subquery()
    return select(run_ids.c.id).order_by(run_ids.c.id).limit(limit)


def _start_of_next_page(run_ids: Sequence[int], limit: int) -> int | None:
    """Return the RunID after which the next page starts; None after the last page."""
    return run_ids[-1] if len(run_ids) == limit else None


def _select_own_runs() -> Select[Any]:
    return select(*RUN_COLUMNS).where(runs.installation == OWN_INSTALLATION)


def _audited_run(row: Row[Any]) -> AuditedRun:
    fields = {name: row._mapping[name] for name in RUN_FIELDS}
    # a supervisor that has just taken over gets as much time as a new run
    fields["begun_at"] = max(row.begun_at, row.supervisor_began_at or row.begun_at)
    return AuditedRun(run_id=row.id, **fields)


def _run_ids_with_deliveries(connection: Connection, after: int, limit: int, noticed_since: datetime) -> list[int]:
    """Return the next RunIDs with an unfinished export, an undelivered notice, or an end that may have no notice.

    Every query below has an index of its own; a query with all conditions would use no index.
    """
    run_ids: set[int] = set()
    for state in NOT_EXPORTED:
        unexported = select(runs.id).where(runs.export_state == state, runs.id > after)
        run_ids.update(connection.scalars(unexported.order_by(runs.id).limit(limit)))
    line = history_logs.c
    is_undelivered = (line.event == UNDELIVERED, line.history_id > after, line.at >= noticed_since)
    undelivered = select(line.history_id).where(*is_undelivered).distinct()
    run_ids.update(connection.scalars(undelivered.order_by(line.history_id).limit(limit)))
    run_id = runs.id + 0  # without the addition the planner would take the index by RunID
    untried = _runs_perhaps_untried(noticed_since).where(run_id > after)
    run_ids.update(connection.scalars(untried.order_by(run_id).limit(limit)))
    return sorted(run_ids)[:limit]


def _deliveries(connection: Connection, run_ids: list[int], noticed_since: datetime) -> list[EndDeliveries]:
    """Return the deliveries of the given runs. Runs that are not over are left out.

    A closing notice counts as untried only if its run ended since `noticed_since`.
    """
    query = _select_own_runs().where(runs.id.in_(run_ids), runs.status.in_(FINAL_STATUSES)).order_by(runs.id)
    failed_at = _last_failed_exports(connection, run_ids)
    notice_keys = _notice_keys(connection, run_ids)
    stored_notices = _stored_notices(connection, run_ids)
    reporting_end = set(connection.scalars(select(runs.id).where(runs.id.in_(run_ids), _reports_end_alone())))
    deliveries = []
    for run in [_audited_run(row) for row in connection.execute(query)]:
        is_recent = run.finished_at is not None and run.finished_at >= noticed_since
        stored = stored_notices[run.run_id]
        owes_notice = is_recent and (bool(stored) or run.run_id in reporting_end)
        is_untried = owes_notice and _closing_notice_is_untried(run, stored)
        keys = frozenset(notice_keys[run.run_id])
        deliveries.append(EndDeliveries(run, failed_at.get(run.run_id), keys, is_untried=is_untried))
    return deliveries


def _may_be_owed(item: EndDeliveries) -> bool:
    """Return whether the run may have a pending delivery; `audits.rules.handovers` compares notice keys and decides."""
    return item.run.export_state in NOT_EXPORTED or bool(item.notice_keys) or item.is_untried


def _closing_notice_is_untried(run: AuditedRun, stored: Collection[str]) -> bool:
    """Return whether no try was made to send the present end's closing notice: every try stores the notice first.

    `stored` has the names of the run's stored notices. The caller passes no run that reports nothing, and no run that
    reports all without any names: such a run may have ended before the service stored notices, and its people would
    get a second closing notice.
    """
    closing = {notice_property(kind, event_id(run.run_uid, kind, run.end_number)) for kind in CLOSING_KINDS}
    return closing.isdisjoint(stored)


def _runs_perhaps_untried(since: datetime) -> Select[Any]:
    """Return the statement for runs that ended since the given time and may have no closing notice.

    In a run with a single end every closing notice belongs to the present end. For other runs
    `_closing_notice_is_untried` compares the names of notices, because SQL cannot compute these names. The statement
    uses the index by last change: the indexes by status and RunID would list every run in the database.
    """
    ended_since = (runs.changed_at >= since, runs.finished_at >= since)
    no_closing_notice = ~_has_notice(*map(notice_property, CLOSING_KINDS))
    owes_notice = or_(_has_notice(NOTICE_PREFIX), _reports_end_alone())
    return select(runs.id).where(*ended_since, owes_notice, or_(runs.end_number > 1, no_closing_notice))


def _reports_end_alone() -> ColumnElement[bool]:
    """Return the condition for runs that report their end alone. MySQL returns JSON's text with quotation marks."""
    return func.json_extract(runs.request, "$.report").in_((Report.END, f'"{Report.END}"'))


def _has_notice(*prefixes: str) -> ColumnElement[bool]:
    """Return the condition for runs with a stored notice, by the possible beginnings for the notice's name."""
    name = history_properties.c.name
    matches = or_(*(name.startswith(prefix, autoescape=True) for prefix in prefixes))
    return select(name).where(history_properties.c.history_id == runs.id, matches).correlate(histories).exists()


def _last_failed_exports(connection: Connection, run_ids: list[int]) -> dict[int, datetime]:
    """Return, by run, when the last failed export failed. Runs without a failed export are left out."""
    failed = (exports.c.history_id.in_(run_ids), exports.c.state == ExportState.FAILED)
    query = select(exports.c.history_id, func.max(exports.c.finished_at)).where(*failed)
    rows = connection.execute(query.group_by(exports.c.history_id))
    return {run_id: failed_at for run_id, failed_at in rows if failed_at is not None}


def _notice_keys(connection: Connection, run_ids: list[int]) -> dict[int, set[str]]:
    """Return, by run, the uids of timeline lines about failed deliveries of notices, and about later deliveries."""
    line = history_logs.c
    about = or_(line.event == UNDELIVERED, line.event == DELIVERED)
    return _values_by_run(
        connection, select(line.history_id, line.entry_uid).where(line.history_id.in_(run_ids), about)
    )


def _stored_notices(connection: Connection, run_ids: list[int]) -> dict[int, set[str]]:
    """Return, by run, all stored notices' names."""
    property_ = history_properties.c
    is_notice = property_.name.startswith(NOTICE_PREFIX, autoescape=True)
    query = select(property_.history_id, property_.name).where(property_.history_id.in_(run_ids), is_notice)
    return _values_by_run(connection, query)


def _values_by_run(connection: Connection, query: Select[Any]) -> dict[int, set[str]]:
    values: dict[int, set[str]] = defaultdict(set)
    for run_id, value in connection.execute(query):
        values[run_id].add(value)
    return values
