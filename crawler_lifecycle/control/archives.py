"""Finds the archive of a run's end, which people and programs fetch, or tells why there is none."""

from collections.abc import Sequence
from dataclasses import dataclass

from crawler_lifecycle.bootstrap.parts import Parts
from crawler_lifecycle.contract.notices import ExportKind
from crawler_lifecycle.contract.records import ExportRecord, RunRecord
from crawler_lifecycle.contract.states import ExportState
from crawler_lifecycle.domain.naming import event_id
from crawler_lifecycle.errors import Conflict, NotFound, TemporaryError
from crawler_lifecycle.ports import StoredArchive


@dataclass(frozen=True, slots=True)
class RunArchive:
    """The archive of a run's end. `sha256` was computed while the archive was written."""

    run_id: int
    end: int
    stored: StoredArchive
    sha256: str | None


def archive_of(parts: Parts, run: RunRecord, exports: Sequence[ExportRecord], end: int | None) -> RunArchive:
    """Return an end's archive, by default the last."""
    number = run.end_number if end is None else end
    if run.end_number == 0:
        raise Conflict(f"run {run.run_id} is {run.status}: its archive is made when it is over")
    if not 1 <= number <= run.end_number:
        raise NotFound(f"run {run.run_id} has no end {number}: its ends are 1 to {run.end_number}")
    archive_event = event_id(run.run_uid, ExportKind.FILES_READY, number)
    _refuse_without_archive(run, next((export for export in exports if export.event_id == archive_event), None))
    event = parts.store.runs.export_event(archive_event)
    stored = parts.archiver.stored(run.run_uid, number)
    return RunArchive(run.run_id, number, stored, event.sha256 if event else None)


def _refuse_without_archive(run: RunRecord, export: ExportRecord | None) -> None:
    if export is None or (export.state is ExportState.PENDING and export.location is None):
        raise TemporaryError(f"the archive of run {run.run_id} is not made yet")
    if export.location is None and export.state is ExportState.DONE:
        raise NotFound(f"run {run.run_id} has left no files, so it has no archive")
    if export.location is None:
        raise Conflict(
            f"the archive of run {run.run_id} could not be made: {export.problem}; "
            f"`crawlctl export {run.run_id}` tries again"
        )
