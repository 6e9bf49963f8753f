"""A pass removes all old things in short transactions with pauses, or only counts them.

A pass may be killed at any point, and the next pass continues. Rows go first, and a run's files go once the run is
stored as removed.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from time import monotonic

from crawler_lifecycle.clusters.ports import Cluster
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.flows.ports.ledger import FlowDoors
from crawler_lifecycle.retention import files
from crawler_lifecycle.retention.model import Ages, Folders, KeepReason, Kind, OldRun, PassReport, Sizes
from crawler_lifecycle.retention.rules import batches, hold_of
from crawler_lifecycle.retention.store import RetentionStore

log = logging.getLogger(__name__)
PATIENCE = timedelta(minutes=2)  # a claim ends after a silence
PAUSE = 19  # multiple for the pause after a transaction: the database is ours for a twentieth
SHORTEST_PAUSE = 0.01
NAMES_AT_ONCE = 500
FLOWS_AT_ONCE = 100
BEGINNING = datetime(1970, 1, 2, tzinfo=UTC)
NOT_OF_RUNS = ("flow", "manager", "audit", "schedule", "scope", "installation", "alembic")  # table prefixes


class _Interrupted(Exception):
    """The process ends, or another worker has the claim."""


@dataclass(frozen=True)
class Retention:
    """Makes passes. `factor`: pause after a transaction, as a multiple; 0: none."""

    store: RetentionStore
    flows: FlowDoors
    cluster: Callable[[], Cluster]
    ages: Ages
    folders: Folders
    holder: str
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    factor: float = PAUSE

    def make_pass(self, stopped: threading.Event) -> PassReport | None:
        """Remove all old things. Return None if another worker has the claim."""
        if not self.store.claim(self.holder, PATIENCE):
            return None
        a_pass = _Pass(self, stopped, is_removing=True)
        report = a_pass.report(self.clock())
        try:
            a_pass.run()
        except _Interrupted:
            report = a_pass.report(report.began_at)
        except LifecycleError as error:
            report = a_pass.report(report.began_at, finished_at=self.clock(), problem=error.message)
        else:
            report = a_pass.report(report.began_at, finished_at=self.clock())
        self.store.finish(self.holder, report)
        return report

    def survey(self) -> PassReport:
        """Return the report for a pass at present, without a change."""
        began_at, a_pass = self.clock(), _Pass(self, threading.Event(), is_removing=False)
        a_pass.run()
        return a_pass.report(began_at, finished_at=self.clock())


@dataclass
class _Pass:
    job: Retention
    stopped: threading.Event
    is_removing: bool
    removed: Counter[Kind] = field(default_factory=Counter)
    bytes: Counter[Kind] = field(default_factory=Counter)
    held: Counter[KeepReason] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    claimed_at: float = field(default_factory=monotonic)

    def report(
        self, began_at: datetime, *, finished_at: datetime | None = None, problem: str | None = None
    ) -> PassReport:
        return PassReport(
            began_at=began_at,
            finished_at=finished_at,
            removed={kind: number for kind, number in self.removed.items() if number},
            bytes={kind: size for kind, size in self.bytes.items() if size},
            held=dict(self.held),
            problem=problem or next(iter(self.problems), None),
        )

    def run(self) -> None:
        """Flows go before their runs, and runs before their files."""
        ages, now = self.job.ages, self.job.clock()
        sizes = self.job.store.sizes()
        if ages.flows is not None:
            self._flows(now - ages.flows)
        if ages.runs is not None:
            self._runs(now - ages.runs, sizes)
            self._items(now - ages.runs)
        if ages.logs is not None:
            self._logs(now - ages.logs)
        for folder in filter(None, (self.job.folders.files, self.job.folders.jobs)):
            self._folders(folder)
        if ages.archives is not None:
            self._files(Kind.ARCHIVES, files.old_archives(self.job.folders.exports, now - ages.archives))
        if ages.lines is not None:
            self._files(Kind.FILES_OF_LINES, files.old_days(self.job.folders.exports, now - ages.lines))

    def _pause(self, began_at: float) -> None:
        """Wait in proportion to the time since `began_at`, and keep the claim. Raises _Interrupted at the end."""
        seconds = max(SHORTEST_PAUSE, (monotonic() - began_at) * self.job.factor) if self.job.factor else 0.0
        if self.is_removing and monotonic() - self.claimed_at > PATIENCE.total_seconds() / 4:
            if not self.job.store.claim(self.job.holder, PATIENCE):
                raise _Interrupted
            self.claimed_at = monotonic()
        if self.stopped.wait(seconds) if seconds else self.stopped.is_set():
            raise _Interrupted

    def _flows(self, before: datetime) -> None:
        if not self.is_removing:
            self.removed[Kind.FLOWS] += len(self.job.store.old_flows(before, limit=1_000_000))
            return
        while uids := self.job.store.old_flows(before, limit=FLOWS_AT_ONCE):
            removed = 0
            for uid in uids:
                began_at = monotonic()
                removed += self.job.flows.prune([uid], ended_before=before)
                self._pause(began_at)
            self.removed[Kind.FLOWS] += removed
            if not removed:  # the flows stay: a run was reopened
                return

    def _runs(self, before: datetime, sizes: Sizes) -> None:
        store, after, with_jobs = self.job.store, 0, None
        bound = store.bound(before)
        while window := store.window(after, bound, before):
            after = window[-1].run_id
            if with_jobs is None:
                with_jobs = self._with_jobs()
            holds = {run.run_id: hold_of(run, with_jobs) for run in window}
            self.held.update(hold for hold in holds.values() if hold is not None)
            for batch in batches([run for run in window if holds[run.run_id] is None]):
                self._batch(batch, before)
        if sizes.runs:
            of_runs = sum(size for name, size in sizes.tables.items() if not name.startswith(NOT_OF_RUNS))
            self.bytes[Kind.RUNS] = of_runs * self.removed[Kind.RUNS] // max(sizes.runs, self.removed[Kind.RUNS])

    def _batch(self, batch: Sequence[OldRun], before: datetime) -> None:
        if not self.is_removing:
            self.removed[Kind.RUNS] += len(batch)
            return
        began_at = monotonic()
        self.removed[Kind.RUNS] += len(self.job.store.remove([run.run_id for run in batch], before))
        self._pause(began_at)

    def _with_jobs(self) -> Collection[str]:
        """Return the run_uids with a job. An incomplete list raises an error, and no run leaves."""
        return {job.run_uid for page in self.job.cluster().inventory() for job in page if job.run_uid is not None}

    def _items(self, before: datetime) -> None:
        store = self.job.store
        for manager in store.open_managers():
            after = 0
            while True:
                began_at = monotonic()
                choose = store.remove_items if self.is_removing else store.old_items
                numbers = choose(manager, after, before)
                if not numbers:
                    break
                self.removed[Kind.ITEMS] += len(numbers)
                after = numbers[-1]
                self._pause(began_at)

    def _logs(self, before: datetime) -> None:
        store, folder = self.job.store, self.job.folders.files
        since, after = store.logs_since() or BEGINNING, ""
        while page := store.archived(since, after, before):
            began_at = monotonic()
            for run in page:
                if files.has_logs(folder, run.run_uid):
                    path = folder / run.run_uid / files.LOGS
                    self._remove(Kind.LOGS, path, lambda uid: files.remove_logs(folder, uid))
            since, after = page[-1].created_at, page[-1].event_id
            if self.is_removing:
                store.logs_are_removed(since)
            self._pause(began_at)

    def _folders(self, folder: Path) -> None:
        """Remove the folders for removed runs. A killed pass may have left some."""
        names = files.run_uids_in(folder)
        while page := list(islice(names, NAMES_AT_ONCE)):
            began_at = monotonic()
            for run_uid in sorted(self.job.store.removed_among(page)):
                self._remove(Kind.FOLDERS, folder / run_uid, lambda uid: files.remove_folder(folder, uid))
            self._pause(began_at)

    def _remove(self, kind: Kind, path: Path, remove: Callable[[str], int]) -> None:
        """Remove a run's folder. After a failure the report has the problem, and the pass continues."""
        run_uid = path.parent.name if path.name == files.LOGS else path.name
        try:
            size = remove(run_uid) if self.is_removing else files.size_of(path)
        except LifecycleError as error:
            self.problems.append(error.message)
            return
        self.removed[kind] += 1
        self.bytes[kind] += size

    def _files(self, kind: Kind, old: Iterator[tuple[Path, int]]) -> None:
        for path, size in old:
            began_at = monotonic()
            if self.is_removing:
                files.remove_file(path)
            self.removed[kind] += 1
            self.bytes[kind] += size
            self._pause(began_at)
