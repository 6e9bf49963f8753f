"""Port for reading runs: for people and doors, for live views, and for audits."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from crawler_lifecycle.contract.notices import Notice
from crawler_lifecycle.contract.records import Changed, RunDetails, RunOverview, RunRecord, RunSummary, TaskRecord
from crawler_lifecycle.contract.states import RunStatus, TaskStatus
from crawler_lifecycle.domain.audit.subjects import AuditedRun


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """A run, with the workflow that made the run."""

    workflow_id: str
    first_execution: str
    created_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class ExpiredClaims:
    """Tasks of a run with expired claims, and when the first claim expired."""

    tasks: Sequence[int]
    since: datetime


@dataclass(frozen=True, slots=True)
class EndDeliveries:
    """Deliveries for the present end of a run that is over: its failed exports and its closing notice."""

    run: AuditedRun
    export_failed_at: datetime | None = None
    notice_keys: frozenset[str] = frozenset()  # keys of the timeline's lines about delivered and undelivered notices
    is_untried: bool = False  # the closing notice was never tried


class Records(Protocol):
    """Read access to runs."""

    # for people and doors

    def installation(self) -> str:
        """Return the installation's UUID. NotReady if the schema is missing or has another version."""

    def page(
        self,
        *,
        limit: int,
        before: int | None,
        status: RunStatus | None,
        crawler: str | None,
        search: str | None = None,
    ) -> list[RunSummary]:
        """Return runs, newest first; `before` is the RunID with which the last page ended.

        `search` is a part of the crawler's name, in upper or lower case.
        """

    def details(self, run_id: int) -> RunDetails: ...

    def overview(self, run_id: int) -> RunOverview: ...

    def tasks(self, run_id: int, *, first: int, limit: int, status: TaskStatus | None = None) -> list[TaskRecord]:
        """Return tasks by number, from `first` on."""

    def latest_of(self, workflow_id: str) -> RunRecord | None:
        """Return the last run made under the workflow id."""

    def run_id(self, run_uid: str) -> int:
        """Return the RunID. NotFound if there is no such run."""

    def scheduled_runs(self, first: str, last: str) -> list[ScheduledRun]:
        """Return the runs whose workflow ids sort from `first` to `last`, oldest first."""

    # for live views

    def latest_change(self) -> datetime | None: ...

    def changed_since(self, moment: datetime | None, limit: int, only: int | None = None) -> list[Changed]:
        """Return the runs changed since the given time, the latest change first. `only`: return only the given run."""

    def summaries(self, run_ids: Sequence[int]) -> list[RunSummary]: ...

    def notices_of(self, run_ids: Sequence[int]) -> list[Notice]:
        """Return these runs' stored notices, in the order of their times."""

    # for audits: the installation's runs, in pages by RunID

    def open_runs(self, after: int, limit: int) -> tuple[list[AuditedRun], int | None]:
        """Return runs that are not over, or were not over a moment ago, and the start of the next page."""

    def audited_by_id(self, run_ids: Collection[int]) -> dict[int, AuditedRun]: ...

    def audited_by_uid(self, run_uids: Collection[str]) -> dict[str, AuditedRun]: ...

    def attempts(self, run_id: int, tasks: Collection[int]) -> dict[int, int]:
        """Return the last attempt of every given task; an unknown task is left out."""

    def expired_claims(self, run_ids: Collection[int], before: datetime) -> dict[int, ExpiredClaims]:
        """Return the tasks, by run, that are DEPLOYING by a claim that expired before the moment."""

    def owed_deliveries(
        self, after: int, limit: int, noticed_since: datetime
    ) -> tuple[list[EndDeliveries], int | None]:
        """Return runs that are over and have an unfinished export, or, since the given time, an undelivered notice or
        an end without a notice; and the start of the next page.
        """

    def deliveries(self, run_id: int) -> EndDeliveries | None:
        """Return the deliveries of the run, however old its end is; None if the run is not over."""
