"""Ports for reading runs (for people and doors, live views, audits), and for audits and their findings on record."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from crawler_lifecycle.contract.audits import AuditOverview, AuditRef, AuditReport, Finding, FindingKind
from crawler_lifecycle.contract.notices import Notice
from crawler_lifecycle.contract.records import Changed, RunDetails, RunOverview, RunRecord, RunSummary, TaskRecord
from crawler_lifecycle.contract.states import RunStatus, TaskStatus
from crawler_lifecycle.domain.audit.subjects import AuditedRun


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """A run with its workflow, so that a schedule's occurrence finds its run."""

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
        """Return open runs, and the start of the next page. A run closing during the call may be included."""

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


@dataclass(frozen=True, slots=True)
class Acted:
    """Number and last time of an audit's acts on an open finding."""

    acts: int
    at: datetime | None
    action: str | None = None


class Findings(Protocol):
    """Audits and their findings. A subject has at most one open finding of a kind."""

    def begin(self, audit: AuditRef) -> None: ...

    def acted(self, findings: Collection[tuple[FindingKind, str]]) -> Mapping[tuple[FindingKind, str], Acted]:
        """Return the acts on the given findings (kind and subject) that are open."""

    def report(self, audit: AuditRef, findings: Sequence[Finding]) -> None:
        """Open every finding, or write that the finding was seen again; with the act, if there was an act."""

    def keep_open(self, audit: AuditRef, subjects: Collection[tuple[FindingKind, str]]) -> None:
        """Keep these findings open: the audit could not judge them, and `close` would take them for settled."""

    def close(self, audit: AuditRef, kinds: Collection[FindingKind]) -> int:
        """Close the findings of these kinds that the audit has not seen. Return how many were closed."""

    def finish(self, report: AuditReport, keep: timedelta) -> None:
        """Write the audit's end. Delete audits and closed findings older than `keep`."""

    def overview(self, *, audits: int, findings: int) -> AuditOverview:
        """Return at most so many audits and findings."""
