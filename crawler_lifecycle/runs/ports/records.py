"""Port for reading runs: for people and doors, live views and audits."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from crawler_lifecycle.model.notices import Notice
from crawler_lifecycle.model.records import (
    Changed,
    CrawlerRuns,
    RunDetails,
    RunOverview,
    RunRecord,
    RunSummary,
    TaskRecord,
)
from crawler_lifecycle.model.run_filter import ALL_RUNS, RunFilter
from crawler_lifecycle.model.states import ListedStatus, RunStatus, TaskStatus
from crawler_lifecycle.model.supervision import AuditedRun
from crawler_lifecycle.model.task_order import TaskOrder


@dataclass(frozen=True, slots=True)
class OccurrenceRun:
    """A run with its workflow: a schedule's occurrence finds its run by the workflow."""

    workflow_id: str
    first_execution: str  # Temporal's id for the workflow's first execution
    created_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class ExpiredClaims:
    """A run's tasks with status DEPLOYING and expired claims."""

    tasks: Sequence[int]
    since: datetime  # when the first claim expired


@dataclass(frozen=True, slots=True)
class EndDeliveries:
    """Facts about the deliveries after a run's last end, from which the audit concludes the pending deliveries."""

    run: AuditedRun
    export_failed_at: datetime | None = None  # None: no export failed
    notice_keys: frozenset[str] = frozenset()  # keys for the timeline's lines about undelivered and later sent notices
    is_untried: bool = False  # whether no worker has tried to send the closing notice


@dataclass(frozen=True, slots=True)
class SaturatedRuns:
    """Open runs that have waited for room in the cluster for long."""

    total: int
    longest: list[RunSummary]  # the longest wait first; a limited number


@dataclass(frozen=True, slots=True)
class RunFigures:
    """Numbers about open runs and exports, for metrics. A time is None without such a run."""

    open: Mapping[RunStatus, int]
    queued_since: datetime | None  # since the first unpaused run without a permit
    looked_at: datetime | None  # the oldest last look at an open run
    look_due_at: datetime | None  # the earliest due time
    pending_exports: int  # runs with an unannounced or unarchived end
    export_pending_since: datetime | None
    failed_exports: int  # runs with a failed export; the audit repeats failed exports


class Records(Protocol):
    """Read access to runs."""

    # for people and doors

    def installation(self) -> str:
        """Return the installation's UUID. NotReady if the schema is missing or has another version."""

    def check_write(self) -> None:
        """Raise TemporaryError unless a write succeeds within a few seconds. The write changes nothing."""

    def page(self, chosen: RunFilter = ALL_RUNS, *, limit: int, before: int | None = None) -> list[RunSummary]:
        """Return a page with the chosen runs, newest first. Runs of flows are left out unless the caller wants them.

        `before`: the last RunID on the previous page; None: return the first page.
        """

    def counts(self, chosen: RunFilter) -> dict[ListedStatus, int]:
        """Count the chosen runs by their status in lists; a status without runs is left out."""

    def by_crawler(self, crawlers: Sequence[str]) -> list[CrawlerRuns]:
        """Return latest run and latest ends for these crawlers, in the same order."""

    def saturated(self, limit: int) -> SaturatedRuns:
        """Return the installation's open runs that have waited for room in the cluster for long."""

    def details(self, run_id: int) -> RunDetails: ...

    def overview(self, run_id: int) -> RunOverview: ...

    def tasks(
        self,
        run_id: int,
        *,
        first: int,
        limit: int,
        status: TaskStatus | None = None,
        order: TaskOrder = TaskOrder.TASK,
    ) -> list[TaskRecord]:
        """Return up to `limit` tasks by number, from the number `first` on; in another order, from the place on."""

    def latest_of(self, workflow_id: str) -> RunRecord | None:
        """Return the last run made under the workflow id; None without such a run."""

    def run_id(self, run_uid: str) -> int:
        """Return the RunID. NotFound if there is no such run."""

    def scheduled_runs(self, first_workflow_id: str, last_workflow_id: str) -> list[OccurrenceRun]:
        """Return the runs whose workflow ids sort from the first to the last given id, oldest first."""

    # for live views

    def latest_change(self) -> datetime | None:
        """Return when a run changed last; None without runs."""

    def changed_since(
        self, moment: datetime | None, limit: int, only_run_id: int | None = None, *, flows: bool = True
    ) -> list[Changed]:
        """Return the runs changed since the time (None: since ever), the latest change first.

        With `only_run_id`, return only this run, if the run has changed. `flows`: also runs of flows.
        """

    def summaries(self, run_ids: Sequence[int]) -> list[RunSummary]: ...

    def figures(self) -> RunFigures: ...

    def notices_of(self, run_ids: Sequence[int]) -> list[Notice]:
        """Return these runs' stored notices, oldest first."""

    # For audits. Pages are sorted by RunID; `after` is the last RunID on the previous page. The second part in a result
    # is the last RunID on the page, or None for the last page.

    def open_runs(self, after: int, limit: int) -> tuple[list[AuditedRun], int | None]:
        """Return a page with open runs. A run closing during the call may be included."""

    def audited_by_id(self, run_ids: Collection[int]) -> dict[int, AuditedRun]: ...

    def audited_by_uid(self, run_uids: Collection[str]) -> dict[str, AuditedRun]: ...

    def attempts(self, run_id: int, tasks: Collection[int]) -> dict[int, int]:
        """Return the last attempt of every given task; an unknown task is left out."""

    def expired_claims(self, run_ids: Collection[int], before: datetime) -> dict[int, ExpiredClaims]:
        """Return, by RunID, the tasks with status DEPLOYING and a claim expired before the moment."""

    def owed_deliveries(
        self, after: int, limit: int, noticed_since: datetime
    ) -> tuple[list[EndDeliveries], int | None]:
        """Return a page with runs that are over and may have a pending delivery.

        An unfinished export counts however old the end is. A closing notice that failed or was never tried counts only
        if the failure or the end came after `noticed_since`.
        """

    def deliveries(self, run_id: int) -> EndDeliveries | None:
        """Return the deliveries of the run, however old its end is; None if the run is not over."""
