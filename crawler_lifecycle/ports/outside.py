"""Whom else does a run speak to?"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from crawler_lifecycle.contract.notices import ExportEvent, Notice
from crawler_lifecycle.contract.requests import RunRequest
from crawler_lifecycle.domain.audit import Described


class Supervisors(Protocol):
    """The workflows of runs, as the engine has them."""

    async def go_on(self, workflow_id: str, request: RunRequest) -> None:
        """Have this workflow run with this request; if it is open already, leave it to it."""

    async def cancel(self, workflow_id: str, temporal_run_id: str) -> None:
        """Ask this one execution to close as cancelled. NotFound if it is not open."""

    async def open_among(self, workflow_ids: Sequence[str]) -> set[str]:
        """Which of these are listed as open. Lists lag: what is not listed may be open, what is may have ended."""

    async def describe(self, workflow_id: str) -> Described:
        """As it is now."""

    async def asked_for(self, workflow_id: str) -> int | None:
        """The RunID that its last execution goes on with; 0: it made a run of its own; None: nobody can tell.
        PermanentError if what it was started with cannot be read."""

    async def task_failure(self, workflow_id: str) -> str | None:
        """Return in one line why its last workflow task failed; None if its latest events hold no failure."""


class Pusher(Protocol):
    def send(self, notice: Notice) -> None:
        """TemporaryError: may be sent again, under its id; PermanentError: this one will never be taken."""

    def check(self) -> str:
        """One line about where notices go, or an error that says what to mend."""


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive as it was written. `bytes` counts the files, `size` the zip; `sha256` is that of the zip."""

    location: str | None
    files: int
    bytes: int
    size: int = 0
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class StoredArchive:
    """An archive in its place: a file of this machine (`path`), or an address that is good for some minutes (`url`)."""

    name: str
    size: int
    path: Path | None = None
    url: str | None = None


class Progress(Protocol):
    def __call__(self, files: int, bytes_done: int) -> None: ...


class Announcer(Protocol):
    def announce(self, event: ExportEvent) -> None: ...

    def check_events(self) -> str:
        """One line about where events go, or an error that says what to mend."""


class Archives(Protocol):
    def stored(self, run_uid: str, end: int) -> StoredArchive:
        """Return where the archive of the run's end of this number (from 1) lies. NotFound if it is not there."""


class Archiver(Archives, Protocol):
    def destination(self, run_uid: str, end: int) -> str:
        """Where the archive of the run's end of this number (from 1) will be, before it is there."""

    def archive(self, run_uid: str, end: int, progress: "Progress") -> Archive | None:
        """Stream what the run left behind to its destination; None if it left nothing."""

    def check_archives(self) -> str:
        """One line about where archives go, or an error that says what to mend."""


class Exporter(Announcer, Archiver, Protocol):
    """Both."""
