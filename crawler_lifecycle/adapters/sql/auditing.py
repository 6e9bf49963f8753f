"""Runs for audits: open runs, expired claims, and owed deliveries, in pages of narrow rows along an index."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from itertools import product
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, func, or_, select, union_all

from crawler_lifecycle.adapters.sql.exports import PREFIX, name_of
from crawler_lifecycle.adapters.sql.pages import pages
from crawler_lifecycle.adapters.sql.schema import (
    OWN_INSTALLATION,
    exports,
    histories,
    history_logs,
    history_properties,
    task_histories,
)
from crawler_lifecycle.adapters.sql.transactions import LIVE, OnDatabase, reading
from crawler_lifecycle.contract.notices import NoticeKind
from crawler_lifecycle.contract.states import ExportState, Intent, RunStatus, TaskStatus
from crawler_lifecycle.domain.audit.subjects import AuditedRun
from crawler_lifecycle.domain.naming import event_id
from crawler_lifecycle.ports import EndDeliveries, ExpiredClaims

runs = histories.c
task_rows = task_histories.c
OVER = tuple(status for status in RunStatus if status.is_over)
NOT_EXPORTED = (ExportState.PENDING, ExportState.FAILED)
CLOSING = (NoticeKind.FINISHED, NoticeKind.STOPPED)
ABOUT_NOTICES = ("undelivered", "delivered")  # events in a run's timeline; the second repairs the first
LONG_AGO = datetime.min.replace(tzinfo=UTC)
FIELDS = sorted(AuditedRun.__dataclass_fields__.keys() - {"run_id"})
COLUMNS = [runs.id, runs.supervisor_began_at, *(runs[name] for name in FIELDS)]


class AuditedRuns(OnDatabase):
    @reading
    def open_runs(self, connection: Connection, after: int, limit: int) -> tuple[list[AuditedRun], int | None]:
        run_ids = connection.scalars(_next_open(after, limit)).all()
        rows = connection.execute(_own_runs().where(runs.id.in_(run_ids)).order_by(runs.id))
        return [_audited(row) for row in rows], _next(run_ids, limit)

    @reading
    def audited_by_id(self, connection: Connection, run_ids: Collection[int]) -> dict[int, AuditedRun]:
        return {run.run_id: run for run in _where_in(connection, runs.id, sorted(set(run_ids)))}

    @reading
    def audited_by_uid(self, connection: Connection, run_uids: Collection[str]) -> dict[str, AuditedRun]:
        return {run.run_uid: run for run in _where_in(connection, runs.run_uid, sorted(set(run_uids)))}

    @reading
    def attempts(self, connection: Connection, run_id: int, tasks: Collection[int]) -> dict[int, int]:
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
        expired = (task_rows.status == TaskStatus.DEPLOYING, task_rows.claim_expires_at < before)
        claims: dict[int, list[tuple[int, datetime]]] = defaultdict(list)
        for ids in pages(sorted(set(run_ids))):
            query = select(task_rows.history_id, task_rows.task, task_rows.claim_expires_at).where(
                *expired, task_rows.history_id.in_(ids)
            )
            for run_id, task, since in connection.execute(query.order_by(task_rows.history_id, task_rows.task)):
                claims[run_id].append((task, since))
        return {
            run_id: ExpiredClaims([task for task, _ in tasks], min(since for _, since in tasks))
            for run_id, tasks in claims.items()
        }

    @reading
    def owed_deliveries(
        self, connection: Connection, after: int, limit: int, noticed_since: datetime
    ) -> tuple[list[EndDeliveries], int | None]:
        run_ids = _next_with_deliveries(connection, after, limit, noticed_since)
        page = [item for item in _deliveries(connection, run_ids, noticed_since) if _may_be_owed(item)]
        return page, _next(run_ids, limit)

    @reading
    def deliveries(self, connection: Connection, run_id: int) -> EndDeliveries | None:
        page = _deliveries(connection, [run_id], LONG_AGO)
        return page[0] if page else None


def _where_in(connection: Connection, column: ColumnElement[Any], values: list[Any]) -> Iterable[AuditedRun]:
    for page in pages(values):
        yield from (_audited(row) for row in connection.execute(_own_runs().where(column.in_(page))))


def _next_open(after: int, limit: int) -> Select[Any]:
    """Return the statement for the next page of open runs, by RunID.

    The index by status and intent is sorted by RunID only within a pair of status and intent, so the statement has a
    part for every pair. Any other form reads and sorts all open runs, or walks through all runs that are over.
    """
    parts = [
        select(runs.id)
        .where(runs.status == status, runs.intent == intent, runs.id > after, runs.installation == OWN_INSTALLATION)
        .order_by(runs.id)
        .limit(limit)
        .subquery()
        for status, intent in product(LIVE, Intent)
    ]
    page = union_all(*(select(part.c.id) for part in parts)).subquery()
    return select(page.c.id).order_by(page.c.id).limit(limit)


def _next(run_ids: Sequence[int], limit: int) -> int | None:
    """Return the RunID behind which the next page starts; None after the last page."""
    return run_ids[-1] if len(run_ids) == limit else None


def _own_runs() -> Select[Any]:
    return select(*COLUMNS).where(runs.installation == OWN_INSTALLATION)


def _audited(row: Row[Any]) -> AuditedRun:
    fields = {name: row._mapping[name] for name in FIELDS}
    # a supervisor that has just taken over gets as much time as a new run
    fields["begun_at"] = max(row.begun_at, row.supervisor_began_at or row.begun_at)
    return AuditedRun(run_id=row.id, **fields)


def _next_with_deliveries(connection: Connection, after: int, limit: int, noticed_since: datetime) -> list[int]:
    """Return the next runs with an unfinished export, an undelivered notice, or an end that may have no notice.

    Three queries, each along its own index: a combined query would use no index.
    """
    run_ids: set[int] = set()
    for state in NOT_EXPORTED:
        query = select(runs.id).where(runs.export_state == state, runs.id > after).order_by(runs.id).limit(limit)
        run_ids.update(connection.scalars(query))
    line = history_logs.c
    undelivered = (line.event == "undelivered", line.history_id > after, line.at >= noticed_since)
    failed_notices = select(line.history_id).where(*undelivered)
    run_ids.update(connection.scalars(failed_notices.distinct().order_by(line.history_id).limit(limit)))
    run_id = runs.id + 0  # without the addition the planner would take the index by RunID
    untried = _perhaps_untried(noticed_since).where(run_id > after)
    run_ids.update(connection.scalars(untried.order_by(run_id).limit(limit)))
    return sorted(run_ids)[:limit]


def _deliveries(connection: Connection, run_ids: list[int], noticed_since: datetime) -> list[EndDeliveries]:
    query = _own_runs().where(runs.id.in_(run_ids), runs.status.in_(OVER)).order_by(runs.id)
    failed_at, notice_keys = _last_failed_export(connection, run_ids), _notice_line_uids(connection, run_ids)
    stored = _stored_notices(connection, run_ids)
    page = []
    for run in [_audited(row) for row in connection.execute(query)]:
        is_recent = run.finished_at is not None and run.finished_at >= noticed_since
        is_untried = is_recent and _is_untried(run, stored[run.run_id])
        keys = frozenset(notice_keys[run.run_id])
        page.append(EndDeliveries(run, failed_at.get(run.run_id), keys, is_untried=is_untried))
    return page


def _may_be_owed(item: EndDeliveries) -> bool:
    """Return whether the run may owe a delivery; `domain.audit.handovers` compares the notice keys and decides."""
    return item.run.export_state in NOT_EXPORTED or bool(item.notice_keys) or item.is_untried


def _is_untried(run: AuditedRun, stored: Collection[str]) -> bool:
    """Return whether the present end's closing notice was never tried: every try stores the notice first.

    A run without any stored notice proves nothing about its end.
    """
    closing = {name_of(kind, event_id(run.run_uid, kind, run.end_number)) for kind in CLOSING}
    return bool(stored) and closing.isdisjoint(stored)


def _perhaps_untried(since: datetime) -> Select[Any]:
    """Return the statement for runs that ended since then and may have no closing notice.

    In a run with a single end every closing notice belongs to the present end. For other runs `_is_untried` compares
    the names of notices, because SQL cannot compute them. The statement uses the index by last change: the indexes by
    status and RunID would list every run in the database.
    """
    lately = (runs.changed_at >= since, runs.finished_at >= since)
    no_closing_notice = ~_has_notice(*map(name_of, CLOSING))
    return select(runs.id).where(*lately, _has_notice(PREFIX), or_(runs.end_number > 1, no_closing_notice))


def _has_notice(*prefixes: str) -> ColumnElement[bool]:
    name = history_properties.c.name
    matches = or_(*(name.startswith(prefix, autoescape=True) for prefix in prefixes))
    return select(name).where(history_properties.c.history_id == runs.id, matches).correlate(histories).exists()


def _last_failed_export(connection: Connection, run_ids: list[int]) -> dict[int, datetime]:
    failed = (exports.c.history_id.in_(run_ids), exports.c.state == ExportState.FAILED)
    query = select(exports.c.history_id, func.max(exports.c.finished_at)).where(*failed)
    rows = connection.execute(query.group_by(exports.c.history_id))
    return {run_id: at for run_id, at in rows if at is not None}


def _notice_line_uids(connection: Connection, run_ids: list[int]) -> dict[int, set[str]]:
    """Return the uids of timeline lines about notices that were not delivered, or were delivered later."""
    line = history_logs.c
    about = or_(*(line.event == event for event in ABOUT_NOTICES))
    return _by_run(connection, select(line.history_id, line.entry_uid).where(line.history_id.in_(run_ids), about))


def _stored_notices(connection: Connection, run_ids: list[int]) -> dict[int, set[str]]:
    """Return the names of all notices stored with these runs."""
    property_ = history_properties.c
    is_notice = property_.name.startswith(PREFIX, autoescape=True)
    query = select(property_.history_id, property_.name).where(property_.history_id.in_(run_ids), is_notice)
    return _by_run(connection, query)


def _by_run(connection: Connection, query: Select[Any]) -> dict[int, set[str]]:
    values: dict[int, set[str]] = defaultdict(set)
    for run_id, value in connection.execute(query):
        values[run_id].add(value)
    return values
