"""Audits and their findings in the database.

The first audit that sees a disagreement opens a finding. Later audits update the finding, and the first audit that does
not see the disagreement any more closes the finding.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid5

from sqlalchemy import Connection, Update, case, delete, func, insert, select, update

from crawler_lifecycle.audits.ports import Acted
from crawler_lifecycle.database.pages import pages, rows_as_table
from crawler_lifecycle.database.schema import audit_findings, audits, schedule_commands
from crawler_lifecycle.database.transactions import OnDatabase, reading, transaction
from crawler_lifecycle.errors import Conflict
from crawler_lifecycle.model.audits import (
    AuditOverview,
    AuditRecord,
    AuditRef,
    AuditReport,
    Finding,
    FindingKind,
    FindingRecord,
    PartReport,
)
from crawler_lifecycle.runs.store.reading import finding_record

columns = audit_findings.c
MOST_DELETED = 1000  # rows deleted from a table by an audit: a long transaction would hold up writers
NAMESPACE = UUID("5f7d2f0c-6b0e-4b52-9f4e-2c1d2a7e9b10")  # random, for the keys of open findings
IS_OPEN = columns.closed_at.is_(None)
OPEN_BY_KIND = select(columns.kind, func.count()).where(IS_OPEN).group_by(columns.kind)
OLDEST_BY_KIND = select(columns.kind, func.min(columns.first_seen_at)).where(IS_OPEN).group_by(columns.kind)
Subject = tuple[FindingKind, str]  # a finding's kind and subject
TEXT_COLUMNS = ("message", "problem", "evidence", "action")
REPORTED_COLUMNS = [columns.open_key, *(columns[name] for name in TEXT_COLUMNS)]


class SqlFindings(OnDatabase):
    """`audits.ports.Findings` in the database."""

    @transaction
    def begin(self, tx: Connection, audit: AuditRef) -> None:
        """Create the audit's row, unless an earlier try has created the row."""
        known = select(audits.c.audit_uid).where(audits.c.audit_uid == audit.audit_uid)
        if tx.scalar(known) is None:
            values = {"audit_uid": audit.audit_uid, "began_at": audit.began_at, "complete": False, "parts": "{}"}
            values["requested_by"] = audit.requested_by
            tx.execute(insert(audits).values(values))

    @reading
    def acted(self, connection: Connection, findings: Collection[Subject]) -> Mapping[Subject, Acted]:
        """Return how often and when audits acted on the given findings. Findings that are not open are left out."""
        subjects = {_open_key(*subject): subject for subject in findings}
        acts: dict[Subject, Acted] = {}
        for page in pages(sorted(subjects)):
            query = select(columns.open_key, columns.acts, columns.acted_at, columns.action).where(
                columns.open_key.in_(page)
            )
            for row in connection.execute(query):
                acts[subjects[row.open_key]] = Acted(row.acts, row.acted_at, row.action)
        return acts

    def report(self, audit: AuditRef, findings: Sequence[Finding]) -> None:
        """Open a new row for every new finding, and update the rows of findings that are open already."""
        for page in pages(findings):
            try:
                self._report(audit, page)
            except Conflict:  # another audit has opened the same finding between our read and our write
                self._report(audit, page)

    @transaction
    def _report(self, tx: Connection, audit: AuditRef, findings: Sequence[Finding]) -> None:
        now = self._db.clock()
        last_seen = {"last_seen_at": now, "last_seen_by": audit.audit_uid}
        by_key = {_open_key(finding.kind, finding.subject): finding for finding in findings}
        known_keys = set(tx.scalars(select(columns.open_key).where(columns.open_key.in_(sorted(by_key)))))
        known = [(key, by_key[key]) for key in sorted(by_key) if key in known_keys]
        new_rows = [last_seen | _new_row(key, by_key[key], now) for key in sorted(by_key) if key not in known_keys]
        if known:
            tx.execute(_update_of_known_findings(tx, known, now).values(last_seen))
        if new_rows:
            tx.execute(insert(audit_findings), new_rows)

    @transaction
    def keep_open(self, tx: Connection, audit: AuditRef, subjects: Collection[Subject]) -> None:
        """Mark findings that the audit could not judge as seen, so that `close` leaves them open."""
        last_seen = {"last_seen_at": self._db.clock(), "last_seen_by": audit.audit_uid}
        for page in pages(sorted(_open_key(*subject) for subject in subjects)):
            tx.execute(update(audit_findings).where(columns.open_key.in_(page)).values(last_seen))

    @transaction
    def close(self, tx: Connection, audit: AuditRef, kinds: Collection[FindingKind]) -> int:
        """Close the open findings of these kinds that the audit has not seen. Return how many were closed."""
        # a finding stays open if our audit has seen the finding, or if another audit has since our audit's beginning
        is_unseen = (columns.last_seen_by != audit.audit_uid, columns.last_seen_at < audit.began_at)
        is_open = (columns.closed_at.is_(None), columns.kind.in_(kinds))
        unseen = update(audit_findings).where(*is_open, *is_unseen)
        # without the key, the same disagreement opens a new finding next time
        return tx.execute(unseen.values(closed_at=self._db.clock(), open_key=None)).rowcount

    def finish(self, report: AuditReport, keep: timedelta) -> None:
        self._finish(report)
        self._delete_old(self._db.clock() - keep)

    @transaction
    def _finish(self, tx: Connection, report: AuditReport) -> None:
        parts = json.dumps({part: result.model_dump(mode="json") for part, result in report.parts.items()})
        this_audit = update(audits).where(audits.c.audit_uid == report.audit.audit_uid, audits.c.finished_at.is_(None))
        tx.execute(this_audit.values(finished_at=self._db.clock(), complete=report.is_complete, parts=parts))

    @transaction
    def _delete_old(self, tx: Connection, before: datetime) -> None:
        """Delete earlier closed findings, audits and commands for schedules. The next audit deletes the rest."""
        old_findings = select(columns.id).where(columns.closed_at < before).order_by(columns.closed_at)
        finding_ids = tx.scalars(old_findings.limit(MOST_DELETED)).all()
        tx.execute(delete(audit_findings).where(columns.id.in_(finding_ids)))
        old_audits = select(audits.c.audit_uid).where(audits.c.began_at < before).order_by(audits.c.began_at)
        audit_uids = tx.scalars(old_audits.limit(MOST_DELETED)).all()
        tx.execute(delete(audits).where(audits.c.audit_uid.in_(audit_uids)))
        commands = schedule_commands.c
        oldest = tx.execute(select(commands.id, commands.at).order_by(commands.id).limit(MOST_DELETED))
        tx.execute(delete(schedule_commands).where(commands.id.in_([row.id for row in oldest if row.at < before])))

    @reading
    def overview(self, connection: Connection, *, audits: int, findings: int) -> AuditOverview:
        """Return the latest audits and findings; `audits` and `findings` limit their numbers."""
        return AuditOverview(
            audits=_audit_records(connection, audits),
            last_complete_at=_last_complete_audit(connection),
            open=dict(iter(connection.execute(OPEN_BY_KIND))),
            open_since=dict(iter(connection.execute(OLDEST_BY_KIND))),
            findings=_finding_records(connection, findings),
        )


def _open_key(kind: FindingKind, subject: str) -> str:
    """Return an open finding's unique key: for a kind and subject there is at most a single open finding."""
    return str(uuid5(NAMESPACE, f"{kind}:{subject}"))


def _new_row(key: str, finding: Finding, now: datetime) -> dict[str, Any]:
    return {
        "open_key": key,
        "kind": finding.kind,
        "subject": finding.subject,
        "history_id": finding.run_id,
        "run_uid": finding.run_uid,
        "message": finding.message,
        "evidence": finding.evidence,
        "first_seen_at": now,
        "action": finding.action,
        "acted_at": now if finding.action else None,
        "acts": 1 if finding.action else 0,
        "problem": finding.problem,
    }


def _update_of_known_findings(connection: Connection, findings: Sequence[tuple[str, Finding]], now: datetime) -> Update:
    """Return a single statement to update all given findings (with their keys).

    Earlier actions and evidence stay unless new values replace them.
    """
    rows = [(key, *(getattr(finding, name) for name in TEXT_COLUMNS)) for key, finding in findings]
    new = rows_as_table(connection, REPORTED_COLUMNS, rows).c
    has_no_action = new.action.is_(None)
    return (
        update(audit_findings)
        .where(columns.open_key == new.open_key)
        .values(
            message=new.message,
            problem=new.problem,
            evidence=func.coalesce(new.evidence, columns.evidence),
            action=func.coalesce(new.action, columns.action),
            acted_at=case((has_no_action, columns.acted_at), else_=now),
            acts=columns.acts + case((has_no_action, 0), else_=1),
        )
    )


def _audit_records(connection: Connection, limit: int) -> list[AuditRecord]:
    query = select(audits).order_by(audits.c.began_at.desc()).limit(limit)
    return [
        AuditRecord(
            audit_uid=row.audit_uid,
            began_at=row.began_at,
            finished_at=row.finished_at,
            complete=row.complete,
            requested_by=row.requested_by,
            parts={part: PartReport.model_validate(result) for part, result in json.loads(row.parts).items()},
        )
        for row in connection.execute(query)
    ]


def _last_complete_audit(connection: Connection) -> datetime | None:
    """Return when the last complete audit finished; None if no audit was complete."""
    finished_at: datetime | None = connection.scalar(
        select(func.max(audits.c.finished_at)).where(audits.c.complete.is_(True))
    )
    return finished_at


def _finding_records(connection: Connection, limit: int) -> list[FindingRecord]:
    """Return the open findings, then the closed findings, latest first."""
    is_closed = case((columns.closed_at.is_(None), 0), else_=1)
    query = select(audit_findings).order_by(is_closed, columns.id.desc()).limit(limit)
    return [finding_record(row) for row in connection.execute(query)]
