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
from crawler_lifecycle.contract.steps.exports import ExportedFiles, ExportSignal, RunEnd
from crawler_lifecycle.contract.steps.run import RunRef
from crawler_lifecycle.domain.naming import event_id
from crawler_lifecycle.domain.words import counted
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.ports import Archive, Exporter, Runs

logger = logging.getLogger(__name__)

MADE = "archive"
NOTHING = Archive(location=None, files=0, bytes=0)


@dataclass
class Try:
    """One try of an export. What it has come to is kept even if it fails."""

    event: ExportEvent
    location: str | None


@dataclass(frozen=True)
class ExportActivities:
    runs: Runs
    exporter: Exporter

    @activity.defn(no_thread_cancel_exception=True)
    def initiate_export_signal(self, step: RunEnd) -> ExportSignal:
        """Announces the end of the run, so that exporting starts."""
        event = self._event(step, ExportKind.RUN_ENDED)
        with self._on_record(step.run, event):
            self.exporter.announce(event)
        self.runs.settle_export(step.run, event.event_id, ExportState.DONE, event.supporting_files, None, event)
        return ExportSignal(event_id=event.event_id, supporting_files=event.supporting_files)

    @activity.defn
    def export_supporting_files(self, step: RunEnd) -> ExportedFiles:
        """Archives what the run left behind, and announces that it is there."""
        planned = self._event(step, ExportKind.FILES_READY)
        with self._on_record(step.run, planned) as this:
            self._archive(step, this)
            self.exporter.announce(this.event)
        self.runs.settle_export(step.run, planned.event_id, ExportState.DONE, this.location, None, this.event)
        return ExportedFiles(
            event_id=planned.event_id,
            location=this.location,
            files=this.event.files or 0,
            bytes=this.event.bytes or 0,
        )

    def _archive(self, step: RunEnd, this: Try) -> None:
        """Made once: a try that could only not announce it has told the next one so.

        A run whose files were removed since then has left nothing any more; its archive is there all the same."""
        archive = _made_before()
        if archive is None:
            archive = self.exporter.archive(this.event.run_uid, this.event.end, _heartbeat) or NOTHING
            activity.heartbeat({"files": archive.files, "bytes": archive.bytes, MADE: asdict(archive)})
        self._tell_left_out(step, archive)
        if archive.location is None and this.location is not None:
            this.event = this.event.model_copy(update={"supporting_files": this.location})
            return
        this.location = archive.location
        figures = {"files": archive.files, "bytes": archive.bytes, "size": archive.size, "sha256": archive.sha256}
        this.event = this.event.model_copy(update=figures)

    def _tell_left_out(self, step: RunEnd, archive: Archive) -> None:
        """Tell with the run what its archive lacks: the manifest that lists this is inside the archive."""
        if not archive.left_out:
            return
        unnamed = archive.left_out - len(archive.first_left_out)
        names = ", ".join(archive.first_left_out) + (f" and {unnamed} more" if unnamed else "")
        message = f"{counted(archive.left_out, 'file')} left out of the archive: {names}; its manifest.json lists all"
        logger.warning("run %s: %s", step.run.run_id, message)
        self.runs.note(step.run, f"left_out:{step.end}", "left_out", message)

    @contextmanager
    def _on_record(self, run: RunRef, event: ExportEvent) -> Iterator[Try]:
        """The export is on record before it is tried, and why a try failed."""
        this = Try(event, self.runs.open_export(run, event).location)
        try:
            yield this
        except LifecycleError as error:
            self._settle_failed(run, this, error.message)
            raise
        except CancelledError:  # the next try says what comes of it
            raise
        except Exception as error:
            logger.exception("export %s of run %s failed unexpectedly", event.event_id, run.run_id)
            self._settle_failed(run, this, f"unexpected: {type(error).__name__}: {error}")
            raise

    def _settle_failed(self, run: RunRef, this: Try, problem: str) -> None:
        self.runs.settle_export(run, this.event.event_id, ExportState.FAILED, this.location, problem, this.event)

    def _event(self, step: RunEnd, kind: ExportKind) -> ExportEvent:
        """As it was kept, if it was: a run that was reopened tells of an earlier end what was true then."""
        run = self.runs.current(step.run)
        identity = event_id(run.run_uid, kind, step.end)
        destination = self.exporter.destination(run.run_uid, step.end)
        for known in dict.fromkeys((kind, *ExportKind)):
            if kept := self.runs.export_event(event_id(run.run_uid, known, step.end)):
                counts = {} if known is kind else dict.fromkeys(("files", "bytes", "size", "sha256"))
                return kept.model_copy(
                    update={"event_id": identity, "kind": kind, "supporting_files": destination, **counts}
                )
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
            supporting_files=destination,
            at=run.finished_at or datetime.now(UTC),
        )


def _made_before() -> Archive | None:
    for told in activity.info().heartbeat_details:
        if isinstance(told, dict) and MADE in told:
            return Archive(**told[MADE] | {"first_left_out": tuple(told[MADE]["first_left_out"])})
    return None


def _heartbeat(files: int, bytes_done: int) -> None:
    activity.heartbeat({"files": files, "bytes": bytes_done})
