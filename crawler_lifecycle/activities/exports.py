"""Activities for the export: announce the end by an event, and archive the run's files."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from temporalio import activity
from temporalio.exceptions import CancelledError

from crawler_lifecycle.contract.notices import ExportEvent, ExportKind
from crawler_lifecycle.contract.states import ExportState
from crawler_lifecycle.contract.steps.run import ExportedFiles, ExportSignal, RunEnd, RunRef
from crawler_lifecycle.domain.naming import event_id
from crawler_lifecycle.domain.words import counted
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.ports import Announcer, Archive, Archiver, Runs

logger = logging.getLogger(__name__)

ARCHIVE = "archive"  # key of the finished archive in the heartbeat's details
NO_FILES = Archive(location=None, files=0, bytes=0)


@dataclass
class ExportAttempt:
    """A try to export. The recording uses the event and location that the try has reached, even if the try fails."""

    event: ExportEvent
    location: str | None


@dataclass(frozen=True)
class ExportActivities:
    runs: Runs
    announcer: Announcer
    archiver: Archiver

    @activity.defn(no_thread_cancel_exception=True)
    def initiate_export_signal(self, step: RunEnd) -> ExportSignal:
        """Announce the run's end by an event."""
        event = self._event(step, ExportKind.RUN_ENDED)
        with self._recorded(step.run, event):
            self.announcer.announce(event)
        self.runs.settle_export(step.run, event.event_id, ExportState.DONE, event.supporting_files, None, event)
        return ExportSignal(event_id=event.event_id, supporting_files=event.supporting_files)

    @activity.defn
    def export_supporting_files(self, step: RunEnd) -> ExportedFiles:
        """Archive the run's files and announce the archive."""
        planned = self._event(step, ExportKind.FILES_READY)
        with self._recorded(step.run, planned) as attempt:
            self._archive(step, attempt)
            self.announcer.announce(attempt.event)
        self.runs.settle_export(step.run, planned.event_id, ExportState.DONE, attempt.location, None, attempt.event)
        return ExportedFiles(
            event_id=planned.event_id,
            location=attempt.location,
            files=attempt.event.files or 0,
            bytes=attempt.event.bytes or 0,
        )

    def _archive(self, step: RunEnd, attempt: ExportAttempt) -> None:
        """Write the archive, unless an earlier try has written the archive and only failed to announce it."""
        archive = _archive_of_earlier_try()
        if archive is None:
            archive = self.archiver.archive(attempt.event.run_uid, attempt.event.end, _heartbeat) or NO_FILES
            activity.heartbeat({"files": archive.files, "bytes": archive.bytes, ARCHIVE: asdict(archive)})
        self._note_left_out(step, archive)
        if archive.location is None and attempt.location is not None:  # the run's files were removed since
            attempt.event = attempt.event.model_copy(update={"supporting_files": attempt.location})
            return
        attempt.location = archive.location
        figures = {"files": archive.files, "bytes": archive.bytes, "size": archive.size, "sha256": archive.sha256}
        attempt.event = attempt.event.model_copy(update=figures)

    def _note_left_out(self, step: RunEnd, archive: Archive) -> None:
        """Note missing files in the run's timeline: the manifest with the full list is inside the archive."""
        if not archive.left_out:
            return
        unnamed = archive.left_out - len(archive.first_left_out)
        names = ", ".join(archive.first_left_out) + (f" and {unnamed} more" if unnamed else "")
        message = f"{counted(archive.left_out, 'file')} left out of the archive: {names}; its manifest.json lists all"
        logger.warning("run %s: %s", step.run.run_id, message)
        self.runs.note(step.run, f"left_out:{step.end}", "left_out", message)

    @contextmanager
    def _recorded(self, run: RunRef, event: ExportEvent) -> Iterator[ExportAttempt]:
        """Record the export before the try, and the reason if the try fails."""
        attempt = ExportAttempt(event, self.runs.open_export(run, event).location)
        try:
            yield attempt
        except LifecycleError as error:
            self._settle_failed(run, attempt, error.message)
            raise
        except CancelledError:  # the next try records the result
            raise
        except Exception as error:
            logger.exception("export %s of run %s failed unexpectedly", event.event_id, run.run_id)
            self._settle_failed(run, attempt, f"unexpected: {type(error).__name__}: {error}")
            raise

    def _settle_failed(self, run: RunRef, attempt: ExportAttempt, problem: str) -> None:
        event = attempt.event
        self.runs.settle_export(run, event.event_id, ExportState.FAILED, attempt.location, problem, event)

    def _event(self, step: RunEnd, kind: ExportKind) -> ExportEvent:
        """Return the event recorded for this end, or a new event.

        After a reopening the run's row describes a later end, so the other event of the same end gives the facts.
        """
        run = self.runs.current(step.run)
        identity = event_id(run.run_uid, kind, step.end)
        destination = self.archiver.destination(run.run_uid, step.end)
        update = {"event_id": identity, "kind": kind, "supporting_files": destination}
        if recorded := self.runs.export_event(identity):
            return recorded.model_copy(update=update)
        for other_kind in ExportKind:
            if recorded := self.runs.export_event(event_id(run.run_uid, other_kind, step.end)):
                no_counts = dict.fromkeys(("files", "bytes", "size", "sha256"))
                return recorded.model_copy(update=update | no_counts)
        return ExportEvent(
            event_id=identity,
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
    for details in activity.info().heartbeat_details:
        if isinstance(details, dict) and ARCHIVE in details:
            return Archive(**details[ARCHIVE] | {"first_left_out": tuple(details[ARCHIVE]["first_left_out"])})
    return None


def _heartbeat(files: int, bytes_done: int) -> None:
    activity.heartbeat({"files": files, "bytes": bytes_done})
