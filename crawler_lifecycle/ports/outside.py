"""Ports to the services outside: Temporal's workflows, receivers of notices and events, archives."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from crawler_lifecycle.contract.notices import ExportEvent, Notice
from crawler_lifecycle.contract.requests import RunRequest
from crawler_lifecycle.domain.audit.subjects import WorkflowInfo


class Supervisors(Protocol):
    """Supervising workflows, as Temporal knows them."""

    async def go_on(self, workflow_id: str, request: RunRequest) -> None:
        """Start the workflow with the request, unless the workflow is open already."""

    async def cancel(self, workflow_id: str, temporal_run_id: str) -> None:
        """Ask the execution to close as cancelled. NotFound if the execution is not open."""

    async def open_among(self, workflow_ids: Sequence[str]) -> set[str]:
        """Return the ids that are listed as open. Lists lag behind, in both directions."""

    async def describe(self, workflow_id: str) -> WorkflowInfo:
        """Return the workflow's present state."""

    async def requested_run_id(self, workflow_id: str) -> int | None:
        """Return the RunID with which the last execution was started; 0 if the execution made its own run, None if
        unknown. PermanentError if the input cannot be read.
        """

    async def task_failure(self, workflow_id: str) -> str | None:
        """Return why the last workflow task failed, in a line; None if the last workflow task succeeded."""


class Pusher(Protocol):
    def send(self, notice: Notice) -> None:
        """Send. TemporaryError: send again under the same id. PermanentError: the notice can never be delivered."""

    def check(self) -> str:
        """Return a line about the receivers, or raise an error with the remedy."""


@dataclass(frozen=True, slots=True)
class Archive:
    """A written archive. `bytes` is the files' size before compression; `size` and `sha256` describe the zip."""

    location: str | None
    files: int
    bytes: int
    size: int = 0
    sha256: str | None = None
    left_out: int = 0  # entries of the folder without a place in the archive
    first_left_out: tuple[str, ...] = ()  # the first such entries, with their reasons


@dataclass(frozen=True, slots=True)
class StoredArchive:
    """An archive in its place: a local file (`path`), or an address (`url`) valid for some minutes."""

    name: str
    size: int
    path: Path | None = None
    url: str | None = None


class Progress(Protocol):
    def __call__(self, files: int, bytes_done: int) -> None: ...


class Announcer(Protocol):
    def announce(self, event: ExportEvent) -> None: ...

    def check_events(self) -> str:
        """Return a line about the receiver of events, or raise an error with the remedy."""


class Archiver(Protocol):
    def stored(self, run_uid: str, end: int) -> StoredArchive:
        """Return the place of the archive for the run's end with this number (from 1). NotFound without an archive."""

    def destination(self, run_uid: str, end: int) -> str:
        """Return the future place of the archive for the run's end with this number (from 1)."""

    def archive(self, run_uid: str, end: int, progress: "Progress") -> Archive | None:
        """Stream the run's files to the destination; None if the run has no files."""

    def check_archives(self) -> str:
        """Return a line about the archives' place, or raise an error with the remedy."""
