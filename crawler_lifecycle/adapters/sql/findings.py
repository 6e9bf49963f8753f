"""Audits and their findings on record: opened, seen again, acted on, closed, deleted."""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid5

from sqlalchemy import Connection, Row, Update, case, delete, func, insert, select, update

from crawler_lifecycle.adapters.sql.pages import pages, table_of
from crawler_lifecycle.adapters.sql.schema import audit_findings, audits
from crawler_lifecycle.adapters.sql.transactions import OnDatabase, reading, transaction
from crawler_lifecycle.contract.audits import (
    AuditOverview,
    AuditRecord,
    AuditRef,
    AuditReport,
    Finding,
    FindingKind,
    FindingRecord,
    PartReport,
)
from crawler_lifecycle.errors import Conflict
from crawler_lifecycle.ports import Acted

columns = audit_findings.c
FORGOTTEN_AT_ONCE = 1000  # rows per table: a long transaction would hold up writers
NAMESPACE = UUID("5f7d2f0c-6b0e-4b52-9f4e-2c1d2a7e9b10")  # for our keys
Subject = tuple[FindingKind, str]
TEXTS = ("message", "problem", "evidence", "action")
COLUMNS_SEEN_AGAIN = [columns.open_key, *(columns[name] for name in TEXTS)]


class SqlFindings(OnDatabase):
    @transaction
    def begin(self, tx: Connection, audit: AuditRef) -> None:
        known = select(audits.c.audit_uid).where(audits.c.audit_uid == audit.audit_uid)
        if tx.scalar(known) is None:
            values = {"audit_uid": audit.audit_uid, "began_at": audit.began_at, "complete": False, "parts": "{}"}
            tx.execute(insert(audits).values(values))

    @reading
    def acted(self, connection: Connection, findings: Collection[Subject]) -> Mapping[Subject, Acted]:
        keys = {_key(*subject): subject for subject in findings}
        known: dict[Subject, Acted] = {}
        for page in pages(sorted(keys)):
            query = select(columns.open_key, columns.acts, columns.acted_at, columns.action).where(
                columns.open_key.in_(page)
            )
            known |= {keys[key]: Acted(*acts) for key, *acts in connection.execute(query)}
        return known

    def report(self, audit: AuditRef, findings: Sequence[Finding]) -> None:
        for page in pages(findings):
            try:
                self._report(audit, page)
            except Conflict:  # another audit has opened the same finding between our read and our write
                self._report(audit, page)

    @transaction
    def _report(self, tx: Connection, audit: AuditRef, findings: Sequence[Finding]) -> None:
        now = self._db.clock()
        by = {"last_seen_at": now, "last_seen_by": audit.audit_uid}
        keyed = sorted({_key(item.kind, item.subject): item for item in findings}.items())
        known = set(tx.scalars(select(columns.open_key).where(columns.open_key.in_([key for key, _ in keyed]))))
        again = [(key, item) for key, item in keyed if key in known]
        new = [by | _opened(key, item, now) for key, item in keyed if key not in known]
        if again:
            tx.execute(_seen_again(tx, again, now).values(by))
        if new:
            tx.execute(insert(audit_findings), new)

    @transaction
    def keep_open(self, tx: Connection, audit: AuditRef, subjects: Collection[Subject]) -> None:
        by = {"last_seen_at": self._db.clock(), "last_seen_by": audit.audit_uid}
        for page in pages(sorted(_key(*subject) for subject in subjects)):
            tx.execute(update(audit_findings).where(columns.open_key.in_(page)).values(by))

    @transaction
    def close(self, tx: Connection, audit: AuditRef, kinds: Collection[FindingKind]) -> int:
        # findings seen by another audit since our audit began are not ours to close
        unseen = (columns.last_seen_by != audit.audit_uid, columns.last_seen_at < audit.began_at)
        vanished = (columns.closed_at.is_(None), columns.kind.in_(kinds), *unseen)
        # without the unique key, the same disagreement opens a new finding next time
        closed = update(audit_findings).where(*vanished).values(closed_at=self._db.clock(), open_key=None)
        return tx.execute(closed).rowcount

    def finish(self, report: AuditReport, keep: timedelta) -> None:
        self._finish(report)
        self._forget(self._db.clock() - keep)

    @transaction
    def _finish(self, tx: Connection, report: AuditReport) -> None:
        parts = json.dumps({part: result.model_dump(mode="json") for part, result in report.parts.items()})
        mine = update(audits).where(audits.c.audit_uid == report.audit.audit_uid, audits.c.finished_at.is_(None))
        tx.execute(mine.values(finished_at=self._db.clock(), complete=report.is_complete, parts=parts))

    @transaction
    def _forget(self, tx: Connection, before: datetime) -> None:
        """Delete a bounded number of old rows; the next audit continues."""
        old = select(columns.id).where(columns.closed_at < before).order_by(columns.closed_at).limit(FORGOTTEN_AT_ONCE)
        tx.execute(delete(audit_findings).where(columns.id.in_(tx.scalars(old).all())))
        past = select(audits.c.audit_uid).where(audits.c.began_at < before).order_by(audits.c.began_at)
        audit_uids = tx.scalars(past.limit(FORGOTTEN_AT_ONCE)).all()
        tx.execute(delete(audits).where(audits.c.audit_uid.in_(audit_uids)))

    @reading
    def overview(self, connection: Connection, *, audits: int, findings: int) -> AuditOverview:
        return AuditOverview(
            audits=_audits(connection, audits),
            last_complete_at=_last_complete(connection),
            open=_counts(connection),
            findings=_findings(connection, findings),
        )


def findings_of(connection: Connection, run_uid: str) -> list[FindingRecord]:
    query = select(audit_findings).where(columns.run_uid == run_uid).order_by(columns.id)
    return [_record(row) for row in connection.execute(query)]


def _key(kind: FindingKind, subject: str) -> str:
    """Return the unique key of an open finding: a subject has at most one open finding of a kind."""
    return str(uuid5(NAMESPACE, f"{kind}:{subject}"))


def _opened(key: str, new: Finding, now: datetime) -> dict[str, Any]:
    return {
        "open_key": key,
        "kind": new.kind,
        "subject": new.subject,
        "history_id": new.run_id,
        "run_uid": new.run_uid,
        "message": new.message,
        "evidence": new.evidence,
        "first_seen_at": now,
        "action": new.action,
        "acted_at": now if new.action else None,
        "acts": 1 if new.action else 0,
        "problem": new.problem,
    }


def _seen_again(connection: Connection, findings: Sequence[tuple[str, Finding]], now: datetime) -> Update:
    """Return a single statement for all findings. Earlier actions and evidence stay unless new values replace them."""
    page = table_of(
        connection, COLUMNS_SEEN_AGAIN, [(key, *(getattr(item, name) for name in TEXTS)) for key, item in findings]
    )
    new, nothing_done = page.c, page.c.action.is_(None)
    return (
        update(audit_findings)
        .where(columns.open_key == new.open_key)
        .values(
            message=new.message,
            problem=new.problem,
            evidence=func.coalesce(new.evidence, columns.evidence),
            action=func.coalesce(new.action, columns.action),
            acted_at=case((nothing_done, columns.acted_at), else_=now),
            acts=columns.acts + case((nothing_done, 0), else_=1),
        )
    )


def _audits(connection: Connection, limit: int) -> list[AuditRecord]:
    query = select(audits).order_by(audits.c.began_at.desc()).limit(limit)
    return [
        AuditRecord(
            audit_uid=row.audit_uid,
            began_at=row.began_at,
            finished_at=row.finished_at,
            complete=row.complete,
            parts={part: PartReport.model_validate(result) for part, result in json.loads(row.parts).items()},
        )
        for row in connection.execute(query)
    ]


def _last_complete(connection: Connection) -> datetime | None:
    latest: datetime | None = connection.scalar(
        select(func.max(audits.c.finished_at)).where(audits.c.complete.is_(True))
    )
    return latest


def _counts(connection: Connection) -> dict[FindingKind, int]:
    query = select(columns.kind, func.count()).where(columns.closed_at.is_(None)).group_by(columns.kind)
    return {row[0]: row[1] for row in connection.execute(query)}


def _findings(connection: Connection, limit: int) -> list[FindingRecord]:
    is_closed = case((columns.closed_at.is_(None), 0), else_=1)
    query = select(audit_findings).order_by(is_closed, columns.id.desc()).limit(limit)
    return [_record(row) for row in connection.execute(query)]


def _record(row: Row[Any]) -> FindingRecord:
    names = FindingRecord.model_fields.keys() - {"run_id"}
    return FindingRecord(run_id=row.history_id, **{name: row._mapping[name] for name in names})
