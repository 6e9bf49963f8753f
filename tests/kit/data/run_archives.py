"""Runs that are over, and their archives on record, for tests."""

from datetime import UTC, datetime

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.delivery.ports import Archive
from crawler_lifecycle.model.naming import event_id
from crawler_lifecycle.model.notices import ExportEvent
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.states import ExportKind, ExportState, RunStatus
from tests.kit.data.databases import ref_to

CONTENT = bytes(range(256)) * 1000


def over(database: Database, run: RunRecord) -> RunRecord:
    SqlStore(database).tasks.cancel_queued(ref_to(run), "stopped")
    SqlStore(database).runs.close(ref_to(run), RunStatus.FAILED, "stopped")
    return SqlStore(database).runs.get(run.run_id)


def event_of(run: RunRecord, archive: Archive | None) -> ExportEvent:
    figures = (
        {"files": archive.files, "bytes": archive.bytes, "size": archive.size, "sha256": archive.sha256}
        if archive
        else {}
    )
    return ExportEvent(
        event_id=event_id(run.run_uid, ExportKind.FILES_READY, run.end_number), kind=ExportKind.FILES_READY,
        run_id=run.run_id, run_uid=run.run_uid, crawler=run.crawler, status=run.status, reason=run.reason,
        tasks=run.tasks, supporting_files="", at=datetime.now(UTC), **figures,
    )  # fmt: skip


def exported(database: Database, run: RunRecord, archive: Archive | None) -> None:
    event = event_of(run, archive)
    SqlStore(database).runs.open_export(ref_to(run), event)
    location = archive.location if archive else None
    SqlStore(database).runs.settle_export(ref_to(run), event.event_id, ExportState.DONE, location, None, event)
