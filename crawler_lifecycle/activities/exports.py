"""Handing over what a run has left: the event that it is over, and the archive of its files."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from temporalio import activity
from temporalio.exceptions import CancelledError

from crawler_lifecycle.contract.notices import ExportEvent, ExportKind
from crawler_lifecycle.contract.states import ExportState
from crawler_lifecycle.contract.steps import ExportedFiles, ExportSignal, RunRef, ToEnd
from crawler_lifecycle.domain.naming import event_id
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.ports import Archive, Exporter, Exports, Histories

logger = logging.getLogger(__name__)

MADE = "archive"
NOTHING = Archive(location=None, files=0, bytes=0)


@dataclass(frozen=True)
class ExportActivities:
    histories: Histories
    exports: Exports
    exporter: Exporter

    @activity.defn(no_thread_cancel_exception=True)
    def initiate_export_signal(self, step: ToEnd) -> ExportSignal:
        """Announces the end of the run, so that exporting starts."""
        event = self._event(step, ExportKind.RUN_ENDED, None)
        with self._on_record(step.run, event):
            self.exporter.announce(event)
        self.exports.settle(step.run, event.event_id, ExportState.DONE, event.supporting_files, None)
        return ExportSignal(event_id=event.event_id, supporting_files=event.supporting_files)

    @activity.defn
    def export_supporting_files(self, step: ToEnd) -> ExportedFiles:
        """Archives what the run left behind, and announces that it is there."""
        planned = self._event(step, ExportKind.FILES_READY, None)
        with self._on_record(step.run, planned):
            archive = self._archive(step.run.run_uid, planned.end)
            self.exporter.announce(self._event(step, ExportKind.FILES_READY, archive))
        self.exports.settle(step.run, planned.event_id, ExportState.DONE, archive.location, None)
        return ExportedFiles(
            event_id=planned.event_id, location=archive.location, files=archive.files, bytes=archive.bytes
        )

    def _archive(self, run_uid: str, end: int) -> Archive:
        """Made once: a try that could only not announce it has told the next one so."""
        if made := _made_before():
            return made
        archive = self.exporter.archive(run_uid, end, _heartbeat) or NOTHING
        activity.heartbeat({"files": archive.files, "bytes": archive.bytes, MADE: asdict(archive)})
        return archive

    @contextmanager
    def _on_record(self, run: RunRef, event: ExportEvent) -> Iterator[None]:
        """The export is on record before it is tried, and why a try failed."""
        self.exports.open(run, event)
        try:
            yield
        except LifecycleError as error:
            self.exports.settle(run, event.event_id, ExportState.FAILED, None, error.message)
            raise
        except CancelledError:  # the next try says what comes of it
            raise
        except Exception as error:
            logger.exception("export %s of run %s failed unexpectedly", event.event_id, run.run_id)
            problem = f"unexpected: {type(error).__name__}: {error}"
            self.exports.settle(run, event.event_id, ExportState.FAILED, None, problem)
            raise

    def _event(self, step: ToEnd, kind: ExportKind, archive: Archive | None) -> ExportEvent:
        run = self.histories.current(step.run)
        return ExportEvent(
            event_id=event_id(run.run_uid, kind, step.end),
            end=step.end,
            kind=kind,
            run_id=run.run_id,
            run_uid=run.run_uid,
            crawler=run.crawler,
            status=run.status,
            reason=run.reason,
            tasks=run.tasks,
            supporting_files=self.exporter.destination(run.run_uid, step.end),
            files=archive.files if archive else None,
            bytes=archive.bytes if archive else None,
            at=run.finished_at or datetime.now(UTC),
        )


def _made_before() -> Archive | None:
    for told in activity.info().heartbeat_details:
        if isinstance(told, dict) and MADE in told:
            return Archive(**told[MADE])
    return None


def _heartbeat(files: int, bytes_done: int) -> None:
    activity.heartbeat({"files": files, "bytes": bytes_done})
