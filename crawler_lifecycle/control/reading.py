"""What can be asked of the runs of an installation? What the database and the cluster answer, and nothing is changed.

What waits is a coroutine, all else a plain method. Each part is opened by the first verb that needs it.
"""

import asyncio
import re
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from crawler_lifecycle.bootstrap.parts import Parts
from crawler_lifecycle.contract.notices import ExportKind
from crawler_lifecycle.contract.records import RunDetails, RunOverview, RunSummary, TaskRecord
from crawler_lifecycle.contract.states import ExportState, RunStatus, TaskStatus
from crawler_lifecycle.control.installation import Installation, locate
from crawler_lifecycle.control.rooms import Room
from crawler_lifecycle.errors import NotFound
from crawler_lifecycle.logs import without_credentials

if TYPE_CHECKING:
    from crawler_lifecycle.contract.deployment import Crawler
    from crawler_lifecycle.control.archives import RunArchive
    from crawler_lifecycle.ports import Cluster, Deployer, LogChunk, Records

T = TypeVar("T")
LOOK_PAUSE = 0.3
EXPORT_PATIENCE = 30.0
ASKING_SCHEDULER = 6  # at once


class Reading:
    def __init__(self, installation: Installation) -> None:
        self.installation = installation
        self._opening = threading.Lock()
        self._at_scheduler = Room("the scheduler service", ASKING_SCHEDULER)

    @classmethod
    def open(cls, state: Path | None = None) -> Self:
        return cls(locate(state))

    def list(
        self,
        *,
        limit: int = 20,
        before: int | None = None,
        status: RunStatus | None = None,
        crawler: str | None = None,
        search: str | None = None,
    ) -> Sequence[RunSummary]:
        """Newest first."""
        return self.records.page(limit=limit, before=before, status=status, crawler=crawler, search=search)

    def show(self, run: int | str) -> RunDetails:
        """By RunID or by run_uid."""
        return self.records.details(self.run_id(run))

    def overview(self, run: int | str) -> RunOverview:
        return self.records.overview(self.run_id(run))

    def tasks(
        self, run: int | str, *, first: int = 0, limit: int = 100, status: TaskStatus | None = None
    ) -> Sequence[TaskRecord]:
        """By number, from `first` on."""
        run_id = self.run_id(run)
        if not (found := self.records.tasks(run_id, first=first, limit=limit, status=status)):
            self.records.overview(run_id)  # NotFound if it is the run that is not there
        return found

    def archive(self, run: int | str, end: int | None = None) -> "RunArchive":
        """Where the archive of this end of the run is fetched from, of its last end by default."""
        from crawler_lifecycle.control.archives import archive_of

        overview = self.overview(run)
        return archive_of(self.parts, overview.run, overview.exports, end)

    async def watch(self, run: int | str) -> AsyncIterator[RunDetails]:
        """The run whenever something of it changed, until it is over and handed over."""
        run_id, last, patience = await asyncio.to_thread(self.run_id, run), None, EXPORT_PATIENCE
        while True:
            details = await self.asked(lambda parts: parts.store.records.details(run_id))
            if details != last:
                yield details
                last = details
            if details.run.status.is_over:
                patience -= LOOK_PAUSE
                if patience <= 0 or is_handed_over(details):
                    return
            await asyncio.sleep(LOOK_PAUSE)

    def log(self, details: RunDetails, task: int, offset: int = 0) -> "LogChunk":
        """What the task's last attempt printed, from this byte on."""

        found = next((row for row in details.tasks if row.task == task), None)
        if found is None:
            raise NotFound(f"run {details.run.run_id} has no task {task}: its tasks are 0 to {len(details.tasks) - 1}")
        return self.task_log(details.run.run_uid, found, offset)

    def task_log(self, run_uid: str, task: TaskRecord, offset: int = 0) -> "LogChunk":
        if task.job_name is None:
            from crawler_lifecycle.ports import LogChunk

            return LogChunk(text="", offset=max(0, offset), ended=task.status.is_over)
        return self.cluster.log(run_uid, task.task, task.attempt, offset)

    def crawlers(self) -> Sequence["Crawler"]:
        """What the scheduler service's catalogue offers."""
        return self.parts.deployer.crawlers()

    def run_id(self, run: int | str) -> int:
        text = str(run).strip()
        if re.fullmatch(r"[0-9]{1,18}", text):
            return int(text)
        try:
            return self.records.run_id(str(uuid.UUID(text)))
        except ValueError as error:
            raise NotFound(f"{text[:80]!r} is neither a RunID (a number) nor a run_uid (a UUID)") from error

    async def asked(self, ask: Callable[[Parts], T]) -> T:
        """In a thread, and once for all of them: opening the database takes as long as that takes to answer."""

        def asking() -> T:
            with self._opening:
                _ = self.parts.database
            return ask(self.parts)

        return await asyncio.to_thread(asking)

    async def asked_scheduler(self, ask: Callable[["Deployer"], T]) -> T:
        """Apart from all else: a stop must not wait behind those who ask a scheduler service that hangs."""
        return await self._at_scheduler.ask(lambda: ask(self.deployer))

    @cached_property
    def parts(self) -> Parts:
        return Parts(self.installation.settings)

    @property
    def records(self) -> "Records":
        return self.parts.store.records

    @property
    def cluster(self) -> "Cluster":
        return self.parts.cluster

    @property
    def deployer(self) -> "Deployer":
        return self.parts.deployer

    @property
    def database_name(self) -> str:
        """Its address, without who asks there and how."""
        return without_credentials(self.installation.settings.database_url).partition("?")[0]


def is_handed_over(details: RunDetails) -> bool:
    """Nothing of the run is still to come: each export of each of its ends has been made, or has failed."""
    made = sum(export.state is not ExportState.PENDING for export in details.exports)
    return made >= details.run.end_number * len(ExportKind)
