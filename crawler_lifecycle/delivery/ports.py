"""Ports for the notices and exports of a run: their rows in the database, and the services that receive them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from crawler_lifecycle.model.notices import AnyEvent, AnyNotice, ExportEvent, Notice
from crawler_lifecycle.model.records import Explanation, ExportRecord, RunRecord
from crawler_lifecycle.model.requests import RunRequest, StopRequest
from crawler_lifecycle.model.run_plan import RunRef
from crawler_lifecycle.model.states import ExportState
from crawler_lifecycle.model.supervision import AuditedRun, WorkflowInfo


class Deliveries(Protocol):
    """A method with a `RunRef` raises Fenced if the run has another supervisor by now."""

    def current(self, run: RunRef) -> RunRecord:
        """Return the run; Fenced if the caller is not its supervisor any more. NotFound if there is no such run."""

    def note(self, run: RunRef, key: str, event: str, message: str, *, hurried: bool = False) -> None:
        """Add a line to the run's timeline, unless a line with the key exists. `hurried`: see `Tasks`."""

    def has_note(self, run: RunRef, key: str) -> bool:
        """Return whether the run's timeline has a line with the key."""

    def open_export(self, run: RunRef, event: ExportEvent) -> ExportRecord:
        """Return the export's row for the event; make the row (pending) at the first call."""

    def export_event(self, event_id: str) -> ExportEvent | None:
        """Return the event as last written by `open_export` or `settle_export`; None without a row."""

    def export_events(self, event_ids: Sequence[str]) -> Mapping[str, ExportEvent]:
        """Return the written events among these ids, by id."""

    def settle_export(
        self,
        run: RunRef,
        event_id: str,
        state: ExportState,
        location: str | None,
        problem: str | None,
        event: ExportEvent | None = None,
    ) -> None:
        """Write the export's state and, unless `event` is None, the event in its final form. DONE stays DONE."""

    def explanation(self, run: RunRecord) -> Explanation | None:
        """Return why the run ended; None for an open run, and for a run whose tasks all succeeded."""

    def keep_notice(self, run: RunRef, notice: Notice) -> Notice:
        """Store the notice, unless a notice with the same id is stored already. Return the stored notice, to send.

        The given object itself is returned if no try has stored a notice before, and for progress.
        So every try under an id sends the same notice. Only the last progress notice stays stored.
        """


class RunWorkflows(Protocol):
    async def go_on(self, run: RunRecord | AuditedRun, *, reopen: bool = False) -> None:
        """Start the run's own workflow, which resumes or reopens the run, unless the workflow is open already."""

    async def describe(self, workflow_id: str) -> WorkflowInfo:
        """Return the workflow's present state. Unlike a list, the state is up to date."""


class Supervisors(RunWorkflows, Protocol):
    """The runs' workflows in Temporal."""

    async def cancel(self, workflow_id: str, temporal_run_id: str) -> None:
        """Ask Temporal to cancel the execution. NotFound if the execution is not open."""

    async def open_among(self, workflow_ids: Sequence[str]) -> set[str]:
        """Return the ids that Temporal lists as open.

        Temporal's list is some seconds old: an open workflow may be absent, and a closed workflow may be listed.
        """

    async def requested_run_id(self, workflow_id: str) -> int | None:
        """Return the RunID in the last execution's request; 0 if the request made a new run, None if unknown.

        PermanentError if the request cannot be read.
        """

    async def task_failure(self, workflow_id: str) -> str | None:
        """Return why the last workflow task failed, in a line; None if the last workflow task succeeded."""


class FlowSupervisors(RunWorkflows, Protocol):
    """The flows' workflows in Temporal, and the workflows of their crawls."""

    async def nudge_flow(self, flow_uid: str, flow_id: str) -> None:
        """Ask the flow's workflow to read its news. Without an open workflow, start the workflow."""

    async def start_crawl(self, workflow_id: str, request: RunRequest) -> None:
        """Start the workflow for a new run. An id is used once: a repeated call starts no second workflow."""

    async def stop(self, workflow_id: str, stop: StopRequest) -> str:
        """Ask a run's workflow to stop. Return the way. NotFound if the workflow is not open."""

    async def failure(self, workflow_id: str) -> str | None:
        """Return why the last execution failed; None if the execution is open, or closed in another way."""


class Pusher(Protocol):
    """Receivers for notices."""

    def send(self, notice: AnyNotice) -> None:
        """Send the notice.

        After a TemporaryError the caller sends again, under the same id. PermanentError: the notice can never be
        delivered.
        """

    def check(self) -> str:
        """Return a line about the receivers, or raise an error with the remedy."""


@dataclass(frozen=True, slots=True)
class Archive:
    """A written archive. `bytes` is the files' size before compression; `size` and `sha256` describe the zip."""

    location: str | None
    files: int
    bytes: int
    size: int = 0  # bytes
    sha256: str | None = None
    left_out: int = 0  # how many entries in the folder an archive cannot hold, such as links and devices
    first_left_out: tuple[str, ...] = ()  # the first left out entries, with the reasons


@dataclass(frozen=True, slots=True)
class StoredArchive:
    """A stored archive: a local file (`path`), or an object in S3 with an address (`url`) valid for some minutes."""

    name: str
    size: int
    path: Path | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class RunArchive:
    """A run's archive after an end. `sha256` was computed while the archive was written."""

    stored: StoredArchive
    sha256: str | None


class OnProgress(Protocol):
    """Function for an archiver to call from time to time, with the files and bytes until now."""

    def __call__(self, files: int, bytes_done: int) -> None: ...


class Announcer(Protocol):
    """Receiver for events."""

    def announce(self, event: AnyEvent) -> None: ...

    def check_events(self) -> str:
        """Return a line about the receiver of events, or raise an error with the remedy."""


class Archiver(Protocol):
    """Store for archives. A run has an archive for every end; `end` is the end's number, from 1."""

    def stored(self, run_uid: str, end: int) -> StoredArchive:
        """Return the stored archive. NotFound without an archive."""

    def destination(self, run_uid: str, end: int) -> str:
        """Return the place where `archive` stores the archive."""

    def archive(
        self, run_uid: str, end: int, ended_at: datetime, progress: "OnProgress", *, may_lack_files: bool = True
    ) -> Archive | None:
        """Archive the run's files at the destination. Return the archive; None if the run has no files.

        `may_lack_files`: if every entry is left out, write an archive of the manifest alone, which names the entries.
        Otherwise return None, so that an earlier archive with files stays.
        `ended_at`, the time of the end, is the manifest's time, so that a repeated archive has the same bytes.
        """

    def check_archives(self) -> str:
        """Return a line about the store for people, or raise an error with the remedy."""
