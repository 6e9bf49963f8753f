"""Activities for the export of an end: announce the end by an event, and archive the run's files."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from temporalio import activity
from temporalio.exceptions import CancelledError

from crawler_lifecycle.base.words import counted
from crawler_lifecycle.delivery.activities.notices import NO_NUDGES, FlowNudges
from crawler_lifecycle.delivery.ports import Announcer, Archive, Archiver, Deliveries
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.model.naming import event_id
from crawler_lifecycle.model.notices import ExportEvent
from crawler_lifecycle.model.run_plan import ExportedEnd, ExportedFiles, ExportSignal, RunRef
from crawler_lifecycle.model.states import ExportKind, ExportState

logger = logging.getLogger(__name__)

ARCHIVE = "archive"  # key of the finished archive in the heartbeat's details
BEAT = 1.0  # seconds; a heartbeat costs more than a small file
FIGURES = ("files", "bytes", "size", "sha256", "left_out")  # fields of an archive and of its event
NO_FILES = Archive(location=None, files=0, bytes=0)  # result for a run without files


@dataclass
class ExportTry:
    """A try to export, as far as the try has come. The record of the export gets both fields, even if the try fails."""

    event: ExportEvent
    location: str | None  # place of the archive; None: no archive is written yet


@dataclass(frozen=True)
class ExportActivities:
    runs: Deliveries
    announcer: Announcer
    archiver: Archiver
    nudges: FlowNudges = NO_NUDGES

    @activity.defn(no_thread_cancel_exception=True)
    def initiate_export_signal(self, step: ExportedEnd) -> ExportSignal:
        """Announce the run's end by an event."""
        event = self._event(step, ExportKind.RUN_ENDED)
        with self._on_record(step.run, event):
            self.announcer.announce(event)
        self.runs.settle_export(step.run, event.event_id, ExportState.DONE, event.supporting_files, None, event)
        self.nudges.tell(step.flow)
        return ExportSignal(event_id=event.event_id, supporting_files=event.supporting_files)

    @activity.defn(no_thread_cancel_exception=True)
    def export_supporting_files(self, step: ExportedEnd) -> ExportedFiles:
        """Archive the run's files and announce the archive."""
        planned = self._event(step, ExportKind.FILES_READY)
        with self._on_record(step.run, planned) as export:
            self._archive(step, export)
            self.announcer.announce(export.event)
        self.runs.settle_export(step.run, planned.event_id, ExportState.DONE, export.location, None, export.event)
        self.nudges.tell(step.flow)
        return ExportedFiles(
            event_id=planned.event_id,
            location=export.location,
            files=export.event.files or 0,
            bytes=export.event.bytes or 0,
        )

    @contextmanager
    def _on_record(self, run: RunRef, event: ExportEvent) -> Iterator[ExportTry]:
        """Record the export as pending before the block, and as failed with the reason if the block fails."""
        export = ExportTry(event, self.runs.open_export(run, event).location)
        try:
            yield export
        except LifecycleError as error:
            self._settle_failed(run, export, error.message)
            raise
        except CancelledError:  # the worker shuts down, or lost the activity: Temporal's next try records the result
            raise
        except Exception as error:
            logger.exception("export %s of run %s failed unexpectedly", event.event_id, run.run_id)
            self._settle_failed(run, export, f"unexpected: {type(error).__name__}: {error}")
            raise

    def _settle_failed(self, run: RunRef, export: ExportTry, problem: str) -> None:
        event = export.event
        self.runs.settle_export(run, event.event_id, ExportState.FAILED, export.location, problem, event)

    def _archive(self, step: ExportedEnd, export: ExportTry) -> None:
        """Write the archive, unless an earlier try has written the archive and only failed to announce the archive."""
        archive = _archive_of_earlier_try()
        if archive is None:
            event = export.event
            is_first = export.location is None  # a folder that became unreadable must not replace its first archive
            archive = (
                self.archiver.archive(event.run_uid, event.end, event.at, Heartbeats(), may_lack_files=is_first)
                or NO_FILES
            )
            activity.heartbeat({"files": archive.files, "bytes": archive.bytes, ARCHIVE: asdict(archive)})
        self._note_missing_files(step, archive)
        if archive.location is None and export.location is not None:  # files removed since: the first archive counts
            export.event = export.event.model_copy(update={"supporting_files": export.location})
            return
        export.location = archive.location
        figures = {name: getattr(archive, name) for name in FIGURES}
        export.event = export.event.model_copy(update=figures)

    def _note_missing_files(self, step: ExportedEnd, archive: Archive) -> None:
        """Note missing files in the run's timeline, because only the manifest inside the archive lists them."""
        if not archive.left_out:
            return
        unnamed = archive.left_out - len(archive.first_left_out)
        names = ", ".join(archive.first_left_out) + (f" and {unnamed} more" if unnamed else "")
        message = f"{counted(archive.left_out, 'file')} left out of the archive: {names}; its manifest.json lists all"
        logger.warning("run %s: %s", step.run.run_id, message)
        self.runs.note(step.run, f"left_out:{step.end}", "left_out", message)

    def _event(self, step: ExportedEnd, kind: ExportKind) -> ExportEvent:
        """Return the recorded event of this kind for the end, else a copy of the end's other event, else a new event.

        Only a new event is made from the run's row, because the row of a reopened run describes a later end.
        """
        run_uid = step.run.run_uid
        new_id = event_id(run_uid, kind, step.end)
        destination = self.archiver.destination(run_uid, step.end)
        own_fields = {"event_id": new_id, "kind": kind, "supporting_files": destination}
        recorded = self.runs.export_events([event_id(run_uid, export_kind, step.end) for export_kind in ExportKind])
        if new_id in recorded:
            return recorded[new_id].model_copy(update=own_fields)
        for other_event in recorded.values():
            no_figures = dict.fromkeys(FIGURES)
            return other_event.model_copy(update=own_fields | no_figures)
        run = self.runs.current(step.run)
        return ExportEvent(
            event_id=new_id,
            end=step.end,
            kind=kind,
            run_id=run.run_id,
            run_uid=run.run_uid,
            crawler=run.crawler,
            status=run.status,
            reason=run.reason,
            tasks=run.tasks,
            outcome=run.outcome,
            stats=run.stats,
            result=run.result,
            supporting_files=destination,
            at=run.finished_at or datetime.now(UTC),
        )


def _archive_of_earlier_try() -> Archive | None:
    """Return the archive from the last heartbeat of an earlier try; None: no try has finished an archive."""
    for details in activity.info().heartbeat_details:
        if isinstance(details, dict) and ARCHIVE in details:
            return Archive(**details[ARCHIVE] | {"first_left_out": tuple(details[ARCHIVE]["first_left_out"])})
    return None


class Heartbeats:
    """The archive's progress as heartbeats, once in BEAT seconds: thousands of files a second are archived.

    A cancelled archive ends here, and not at any line of its thread: there, the SDK's exception could end a thread that
    the archive starts, and every later start of a thread in the process would wait forever.
    """

    def __init__(self) -> None:
        self._sent_at = float("-inf")

    def __call__(self, files: int, bytes_done: int) -> None:
        now = time.monotonic()
        if now - self._sent_at >= BEAT:
            self._sent_at = now
            if activity.is_cancelled():
                raise CancelledError("the archive was cancelled")
            activity.heartbeat({"files": files, "bytes": bytes_done})
