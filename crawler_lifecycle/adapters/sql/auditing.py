"""What does an audit read of the runs? Narrow rows, in pages along an index."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from itertools import product
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, func, or_, select, union_all

from crawler_lifecycle.adapters.sql.fence import LIVE
from crawler_lifecycle.adapters.sql.notices import PREFIX, name_of
from crawler_lifecycle.adapters.sql.pages import pages
from crawler_lifecycle.adapters.sql.schema import (
    exports,
    histories,
    history_logs,
    history_properties,
    installation,
    task_histories,
)
from crawler_lifecycle.adapters.sql.transactions import OnDatabase, reading
from crawler_lifecycle.contract.notices import NoticeKind
from crawler_lifecycle.contract.states import ExportState, Intent, RunStatus, TaskStatus
from crawler_lifecycle.domain.audit import AuditedRun
from crawler_lifecycle.domain.naming import event_id
from crawler_lifecycle.ports import ExpiredClaims, Handover

run = histories.c
of = task_histories.c
ENDED = tuple(status for status in RunStatus if status.is_over)
NOT_EXPORTED = (ExportState.PENDING, ExportState.FAILED)
CLOSING = (NoticeKind.FINISHED, NoticeKind.STOPPED)
ABOUT_NOTICES = ("undelivered", "delivered")
EVER = datetime.min.replace(tzinfo=UTC)
OURS = select(installation.c.uid).scalar_subquery()
COLUMNS = [
    run.id, run.run_uid, run.crawler, run.status, run.reason, run.workflow_id, run.supervisor_run_id, run.epoch,
    run.begun_at, run.supervisor_began_at, run.finished_at, run.next_look_at, run.changed_at, run.export_state,
    run.end_number,
]  # fmt: skip


class AuditedRuns(OnDatabase):
    @reading
    def open_runs(self, connection: Connection, after: int, limit: int) -> tuple[list[AuditedRun], int | None]:
        numbers = connection.scalars(_next_open(after, limit)).all()
        rows = connection.execute(_ours().where(run.id.in_(numbers)).order_by(run.id))
        return [_audited(row) for row in rows], _next(numbers, limit)

    @reading
    def audited_by_id(self, connection: Connection, run_ids: Collection[int]) -> dict[int, AuditedRun]:
        return {each.run_id: each for each in _where_in(connection, run.id, sorted(set(run_ids)))}

    @reading
    def audited_by_uid(self, connection: Connection, run_uids: Collection[str]) -> dict[str, AuditedRun]:
        return {each.run_uid: each for each in _where_in(connection, run.run_uid, sorted(set(run_uids)))}

    @reading
    def attempts(self, connection: Connection, run_id: int, tasks: Collection[int]) -> dict[int, int]:
        found: dict[int, int] = {}
        for page in pages(sorted(set(tasks))):
            query = select(of.task, of.attempt).where(of.history_id == run_id, of.task.in_(page))
            found |= {row.task: row.attempt for row in connection.execute(query)}
        return found

    @reading
    def expired_claims(
        self, connection: Connection, run_ids: Collection[int], before: datetime
    ) -> dict[int, ExpiredClaims]:
        expired = (of.status == TaskStatus.DEPLOYING, of.claim_expires_at < before)
        found: dict[int, list[tuple[int, datetime]]] = defaultdict(list)
        for ids in pages(sorted(set(run_ids))):
            query = select(of.history_id, of.task, of.claim_expires_at).where(*expired, of.history_id.in_(ids))
            for run_id, task, since in connection.execute(query.order_by(of.history_id, of.task)):
                found[run_id].append((task, since))
        return {
            run_id: ExpiredClaims([task for task, _ in tasks], min(since for _, since in tasks))
            for run_id, tasks in found.items()
        }

    @reading
    def handovers(
        self, connection: Connection, after: int, limit: int, noticed_since: datetime
    ) -> tuple[list[Handover], int | None]:
        numbers = _next_to_hand_over(connection, after, limit, noticed_since)
        page = [each for each in _handovers(connection, numbers, noticed_since) if _is_left(each)]
        return page, _next(numbers, limit)

    @reading
    def handover(self, connection: Connection, run_id: int) -> Handover | None:
        found = _handovers(connection, [run_id], EVER)
        return found[0] if found else None


def _where_in(connection: Connection, column: ColumnElement[Any], values: list[Any]) -> Iterable[AuditedRun]:
    for page in pages(values):
        yield from (_audited(row) for row in connection.execute(_ours().where(column.in_(page))))


def _next_open(after: int, limit: int) -> Select[Any]:
    """By RunID along the index of status and intent, which is sorted by RunID only within each pair of them. Asked for
    in any other way, each page would read and sort all open runs, or walk through all that are over."""
    parts = [
        select(run.id)
        .where(run.status == status, run.intent == intent, run.id > after, run.installation == OURS)
        .order_by(run.id)
        .limit(limit)
        .subquery()
        for status, intent in product(LIVE, Intent)
    ]
    found = union_all(*(select(part.c.id) for part in parts)).subquery()
    return select(found.c.id).order_by(found.c.id).limit(limit)


def _next(numbers: Sequence[int], limit: int) -> int | None:
    return numbers[-1] if len(numbers) == limit else None


def _ours() -> Select[Any]:
    return select(*COLUMNS).where(run.installation == OURS)


def _audited(row: Row[Any]) -> AuditedRun:
    return AuditedRun(
        run_id=row.id,
        run_uid=row.run_uid,
        crawler=row.crawler,
        status=row.status,
        reason=row.reason,
        workflow_id=row.workflow_id,
        supervisor_run_id=row.supervisor_run_id,
        epoch=row.epoch,
        begun_at=max(row.begun_at, row.supervisor_began_at or row.begun_at),
        finished_at=row.finished_at,
        next_look_at=row.next_look_at,
        changed_at=row.changed_at,
        export_state=row.export_state,
        end_number=row.end_number,
    )


def _next_to_hand_over(connection: Connection, after: int, limit: int, noticed_since: datetime) -> list[int]:
    """Each of them along its own index: together neither would be used."""
    numbers: set[int] = set()
    for state in NOT_EXPORTED:
        query = select(run.id).where(run.export_state == state, run.id > after).order_by(run.id).limit(limit)
        numbers.update(connection.scalars(query))
    line = history_logs.c
    undelivered = (line.event == "undelivered", line.history_id > after, line.at >= noticed_since)
    told = select(line.history_id).where(*undelivered)
    numbers.update(connection.scalars(told.distinct().order_by(line.history_id).limit(limit)))
    number = run.id + 0  # by no index
    silent = _perhaps_silent(noticed_since).where(number > after)
    numbers.update(connection.scalars(silent.order_by(number).limit(limit)))
    return sorted(numbers)[:limit]


def _handovers(connection: Connection, run_ids: list[int], noticed_since: datetime) -> list[Handover]:
    query = _ours().where(run.id.in_(run_ids), run.status.in_(ENDED)).order_by(run.id)
    found = [_audited(row) for row in connection.execute(query)]
    failed_at, logged = _failed_at(connection, run_ids), _logged(connection, run_ids)
    kept = _kept(connection, run_ids)
    return [
        Handover(
            each,
            failed_at.get(each.run_id),
            frozenset(logged[each.run_id]),
            silent=_is_since(each.finished_at, noticed_since) and _is_silent(each, kept[each.run_id]),
        )
        for each in found
    ]


def _is_left(each: Handover) -> bool:
    return each.run.export_state in NOT_EXPORTED or bool(each.logged) or each.silent


def _is_since(moment: datetime | None, since: datetime) -> bool:
    return moment is not None and moment >= since


def _is_silent(run: AuditedRun, kept: Collection[str]) -> bool:
    """Nobody tried to tell its present end: what is tried is kept before it is sent. Of a run of which nothing was
    kept, nothing can be said: the version that watched it kept no notices."""
    return bool(kept) and not any(_name(run, kind) in kept for kind in CLOSING)


def _name(run: AuditedRun, kind: NoticeKind) -> str:
    return name_of(kind, event_id(run.run_uid, kind, run.end_number))


def _perhaps_silent(since: datetime) -> Select[Any]:
    """Over since then. Of a run that has ended once, any closing notice is that of its end; of others, names have to be
    compared (`_is_silent`), which are made of what SQL cannot compute. By the index of what changed lately: that of the
    status, or of the RunID, lists all that ever ran."""
    lately = (run.changed_at >= since, run.finished_at >= since)
    return select(run.id).where(*lately, _has_kept(PREFIX), or_(run.end_number > 1, ~_has_kept(*map(name_of, CLOSING))))


def _has_kept(*prefixes: str) -> ColumnElement[bool]:
    name = history_properties.c.name
    is_one = or_(*(name.startswith(prefix, autoescape=True) for prefix in prefixes))
    return select(name).where(history_properties.c.history_id == run.id, is_one).correlate(histories).exists()


def _failed_at(connection: Connection, run_ids: list[int]) -> dict[int, datetime]:
    failed = (exports.c.history_id.in_(run_ids), exports.c.state == ExportState.FAILED)
    query = select(exports.c.history_id, func.max(exports.c.finished_at)).where(*failed)
    rows = connection.execute(query.group_by(exports.c.history_id))
    return {run_id: at for run_id, at in rows if at is not None}


def _logged(connection: Connection, run_ids: list[int]) -> dict[int, set[str]]:
    line = history_logs.c
    about = or_(*(line.event == event for event in ABOUT_NOTICES))
    found: dict[int, set[str]] = defaultdict(set)
    query = select(line.history_id, line.entry_uid).where(line.history_id.in_(run_ids), about)
    for run_id, entry in connection.execute(query):
        found[run_id].add(entry)
    return found


def _kept(connection: Connection, run_ids: list[int]) -> dict[int, set[str]]:
    """The names of all notices."""
    of = history_properties.c
    found: dict[int, set[str]] = defaultdict(set)
    query = select(of.history_id, of.name).where(
        of.history_id.in_(run_ids), of.name.startswith(PREFIX, autoescape=True)
    )
    for run_id, name in connection.execute(query):
        found[run_id].add(name)
    return found
