"""Show a crawl's run as its rows would show the run, with the files in its folder."""

import shutil
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from crawler_lifecycle.flows.model.records import CrawlReceipt, TaskReceipt
from crawler_lifecycle.flows.rules.ends import RunSeen
from crawler_lifecycle.flows.rules.rows import MemberRow
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.testing.outcomes import CrawlOutcome, Files

END = 1  # a run in a play ends once


@dataclass(frozen=True)
class PlayedRun:
    """A crawl's run in a play."""

    run_id: int
    run_uid: str
    request: RunRequest
    outcome: CrawlOutcome
    tasks: int
    files: str | None
    archive: str | None

    def seen(self, row: MemberRow, status: RunStatus, at: datetime, *, archived: bool = True) -> RunSeen:
        """Return the run as the ledger would see the run."""
        end = self.outcome if status.is_over else None
        return RunSeen(
            row.number,
            row.attempt,
            status,
            END,
            at,
            reason=end.reason if end else None,
            outcome=end.outcome if end else None,
            archived=archived,
            tasks=self.tasks,
        )

    def receipt(self) -> CrawlReceipt:
        return CrawlReceipt(
            run_id=self.run_id,
            run_uid=self.run_uid,
            status=self.outcome.status,
            reason=self.outcome.reason,
            outcome=self.outcome.outcome,
            tasks=self.tasks,
            archive=self.archive,
            stats=dict(self.outcome.stats),
            result=self.outcome.result,
            files=self.files,
        )

    def ended_as(self, outcome: CrawlOutcome) -> "PlayedRun":
        """Return the run with another end."""
        return replace(self, outcome=outcome)

    def task(self, crawl: str, task: int) -> TaskReceipt:
        return TaskReceipt(crawl=crawl, task=task, run_id=self.run_id, run_uid=self.run_uid, files=self.files)


class PlayedRuns:
    """All runs in a play, with RunIDs from 1 on. Folders for files are removed with the object."""

    def __init__(self) -> None:
        self._count = 0
        self._folder: Path | None = None

    def new(self, request: RunRequest, outcome: CrawlOutcome) -> PlayedRun:
        self._count += 1
        run_uid = str(uuid5(NAMESPACE_URL, f"run:{self._count}"))
        files = None if outcome.files is None else self._folder_with(outcome.files, run_uid)
        archive = None if files is None else self._archive_of(files, run_uid)
        tasks = outcome.tasks or request.tasks or 1
        return PlayedRun(self._count, run_uid, request, outcome, tasks, None if files is None else str(files), archive)

    def _folder_with(self, files: Files, run_uid: str) -> Path:
        folder = self._base() / "files" / run_uid
        if not isinstance(files, Mapping):
            shutil.copytree(files, folder)
            return folder
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _archive_of(self, files: Path, run_uid: str) -> str | None:
        """Write the archive as the service does, so a function may read the archive."""
        from crawler_lifecycle.delivery.adapters.folder import FolderExporter
        from crawler_lifecycle.testing.memory import NOW

        exporter = FolderExporter(files.parent, self._base() / "exports")
        archive = exporter.archive(run_uid, END, NOW, lambda *_: None)
        return None if archive is None else archive.location

    def _base(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="flow-play-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder
