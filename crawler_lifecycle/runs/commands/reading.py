"""`RunReader` reads runs, tasks, logs and archives from database, cluster and archives, without Temporal.

The module does not import Temporal's client: a command that only reads starts in half the time.
"""

import asyncio
import re
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

from crawler_lifecycle.clusters.ports import HasPlaces, LogChunk
from crawler_lifecycle.context import CommandParts, ControlContext
from crawler_lifecycle.delivery.ports import RunArchive
from crawler_lifecycle.errors import BadInput, Conflict, NotFound, TemporaryError
from crawler_lifecycle.model.answers import ClusterPlaces, InstallationView
from crawler_lifecycle.model.limits import INSTALLATION
from crawler_lifecycle.model.naming import event_id
from crawler_lifecycle.model.records import (
    EXPORT_PATIENCE,
    CrawlerRuns,
    ExportRecord,
    RunCounts,
    RunDetails,
    RunFilter,
    RunOverview,
    RunRecord,
    RunSummary,
    TaskOrder,
    TaskRecord,
)
from crawler_lifecycle.model.states import ExportKind, ExportState, TaskStatus
from crawler_lifecycle.model.usage import Usage, UsageBy
from crawler_lifecycle.runs.ports import FoundRuns, RunStore, WaitingRuns

POLL_PAUSE = 0.3  # seconds between two reads of a watched run
USAGE_PERIOD = timedelta(days=30)
LONGEST_USAGE_PERIOD = timedelta(days=31)  # the sums read every run of the period


def archive_of(
    parts: CommandParts[RunStore], run: RunRecord, exports: Sequence[ExportRecord], end: int | None
) -> RunArchive:
    """Return an end's archive, by default the last end's archive."""
    number = run.end_number if end is None else end
    if run.end_number == 0:
        raise Conflict(f"run {run.run_id} is {run.status}: its archive is made when it is over")
    if not 1 <= number <= run.end_number:
        raise NotFound(f"run {run.run_id} has no end {number}: its ends are 1 to {run.end_number}")
    archive_event = event_id(run.run_uid, ExportKind.FILES_READY, number)
    export = next((export for export in exports if export.event_id == archive_event), None)
    _refuse_without_archive(run, export)
    event = parts.store.runs.export_event(archive_event)
    stored = parts.archiver.stored(run.run_uid, number)
    return RunArchive(stored, event.sha256 if event else None)


def _refuse_without_archive(run: RunRecord, export: ExportRecord | None) -> None:
    """Raise an error unless the archive exists, that is unless its export has a location."""
    if export is not None and export.location is not None:
        return
    if export is None or export.state is ExportState.PENDING:
        raise TemporaryError(f"the archive of run {run.run_id} is not made yet")
    if export.state is ExportState.DONE:
        raise NotFound(f"run {run.run_id} has left no files, so it has no archive")
    raise Conflict(
        f"the archive of run {run.run_id} could not be made: {export.problem}; "
        f"`crawlctl export {run.run_id}` tries again"
    )


def _in_window(chosen: RunFilter) -> RunFilter:
    return chosen.in_window(datetime.now(UTC))


class RunReader:
    """Reads runs. Callers name a run by its RunID or its run_uid."""

    def __init__(self, context: ControlContext[RunStore]) -> None:
        self._context = context

    def select(self, chosen: RunFilter, *, limit: int = 20, before: int | None = None) -> Sequence[RunSummary]:
        """Return the chosen runs, newest first; with `before`, only runs before the given RunID.

        Without `since`, a search goes back 30 days, as `RunFilter.in_window` says.
        """
        return self._context.store.records.page(_in_window(chosen), limit=limit, before=before)

    def find(self, chosen: RunFilter, *, limit: int = 20, before: int | None = None) -> FoundRuns:
        """Return the chosen runs, but read a limited number of rows: the page may be short, even empty."""
        return self._context.store.records.search(chosen, limit=limit, before=before)

    def counts(self, chosen: RunFilter) -> RunCounts:
        """Count the chosen runs by their status in lists. The runs are those of `select`."""
        return self._context.store.records.counts(_in_window(chosen))

    def by_crawler(self, crawlers: Sequence[str]) -> Sequence[CrawlerRuns]:
        """Return the latest run and the latest ends of these crawlers, in the same order."""
        return self._context.store.records.by_crawler(crawlers)

    def usage(self, by: UsageBy, since: datetime | None = None, until: datetime | None = None) -> Usage:
        """Sum the use over the runs with an end in the period, by default in the 30 days before `until`."""
        until = until or datetime.now(UTC)
        since = since or until - USAGE_PERIOD
        if until - since > LONGEST_USAGE_PERIOD:
            raise BadInput("since", f"at most {LONGEST_USAGE_PERIOD.days} days before until: ask month by month")
        return self._context.store.records.usage(by, since, until)

    def saturated(self, limit: int) -> WaitingRuns:
        """Return the open runs that have waited for room in the cluster for long."""
        return self._context.store.records.saturated(limit)

    def installation(self, most_saturated: int) -> InstallationView:
        """Return the installation's use of its capacity, and the runs without room in the cluster."""
        store = self._context.store
        limits, saturated = store.limits.all(), self.saturated(most_saturated)
        own = next(record for record in limits if record.scope == INSTALLATION)
        in_line, open_runs = sum(record.runs_held for record in limits), store.records.count_open()
        return InstallationView(
            installation=store.records.installation(),
            limits=own,
            open_runs=own.runs_begun + in_line if open_runs is None else open_runs,
            runs_in_line=in_line,
            places=self._places(),
            saturated_runs=saturated.total,
            more_saturated_runs=saturated.has_more,
            saturated=list(saturated.longest),
        )

    def _places(self) -> ClusterPlaces | None:
        """Return the places; None for a cluster without a fixed number, and for a cluster that cannot be read now."""
        cluster = self._context.parts.cluster
        if not isinstance(cluster, HasPlaces):
            return None
        try:
            return ClusterPlaces(**asdict(cluster.places()))
        except TemporaryError:
            return None

    def show(self, run: int | str) -> RunDetails:
        return self._context.store.records.details(self.run_id(run))

    def overview(self, run: int | str) -> RunOverview:
        return self._context.store.records.overview(self.run_id(run))

    def tasks(
        self,
        run: int | str,
        *,
        first: int = 0,
        limit: int = 100,
        status: TaskStatus | None = None,
        order: TaskOrder = TaskOrder.TASK,
    ) -> Sequence[TaskRecord]:
        """Return a run's tasks by number, from the number `first` on; in another order, from the place `first` on."""
        run_id, records = self.run_id(run), self._context.store.records
        tasks = records.tasks(run_id, first=first, limit=limit, status=status, order=order)
        if not tasks:
            records.overview(run_id)  # NotFound if the run does not exist
        return tasks

    def archive(self, run: int | str, end: int | None = None) -> RunArchive:
        """Return an end's archive, by default the last end's archive."""
        overview = self.overview(run)
        return archive_of(self._context.parts, overview.run, overview.exports, end)

    async def watch(self, run: int | str) -> AsyncIterator[RunDetails]:
        """Yield the run at every change, until the run is over and its exports are done or exceed EXPORT_PATIENCE."""
        run_id = await self._context.calls.run(self.run_id, run)
        last_details: RunDetails | None = None
        seconds_for_exports = EXPORT_PATIENCE
        while True:
            details = await self._context.database(lambda store: store.records.details(run_id))
            if details != last_details:
                yield details
                last_details = details
            if details.run.status.is_over:
                seconds_for_exports -= POLL_PAUSE
                if details.is_handed_over or seconds_for_exports <= 0:
                    return
            await asyncio.sleep(POLL_PAUSE)

    def task_log(self, run_uid: str, task: TaskRecord, offset: int = 0) -> LogChunk:
        """Return the log from the byte `offset` on. A task that never had a job has an empty log."""
        if task.job_name is None:
            return LogChunk(text="", offset=max(0, offset), ended=task.status.is_over)
        return self._context.parts.cluster.log(run_uid, task.task, task.attempt, offset)

    def run_id(self, run: int | str) -> int:
        """Return the RunID for a RunID or a run_uid. NotFound for a run_uid without a run, and for any other text."""
        text = str(run).strip()
        if re.fullmatch(r"[0-9]{1,18}", text):  # at most 18 digits: a longer number does not fit into the database
            return int(text)
        try:
            return self._context.store.records.run_id(str(uuid.UUID(text)))
        except ValueError as error:
            raise NotFound(f"{text[:80]!r} is neither a RunID (a number) nor a run_uid (a UUID)") from error
