"""Port to runs as people, doors and audits read them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from crawler_lifecycle.contract.notices import Notice
from crawler_lifecycle.contract.records import (
    Changed,
    RunDetails,
    RunOverview,
    RunRecord,
    RunSummary,
    TaskRecord,
)
from crawler_lifecycle.contract.states import RunStatus, TaskStatus
from crawler_lifecycle.domain.audit.subjects import AuditedRun


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """A run, with the workflow that made it."""

    workflow_id: str
    first_execution: str
    created_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class ExpiredClaims:
    """Tasks of a run whose claims ran out, and when the first of them did."""

    tasks: Sequence[int]
    since: datetime


@dataclass(frozen=True, slots=True)
class Handover:
    """A run that is over, with the state of its notices and its failed exports."""

    run: AuditedRun
    failed_at: datetime | None = None
    logged: frozenset[str] = frozenset()
    silent: bool = False  # its closing notice was never tried


class Records(Protocol):
    """Runs as they are read."""

    # for people and doors

    def installation(self) -> str:
        """Return the installation's UUID. NotReady if the schema is missing or of another version."""

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

        `search` is a part of the crawler's name, in any case."""

    def details(self, run_id: int) -> RunDetails: ...

    def overview(self, run_id: int) -> RunOverview: ...

    def tasks(self, run_id: int, *, first: int, limit: int, status: TaskStatus | None = None) -> list[TaskRecord]:
        """Return tasks by number, from `first` on."""

    def latest_of(self, workflow_id: str) -> RunRecord | None:
        """Return the last run that was made under this workflow id."""

    def run_id(self, run_uid: str) -> int:
        """Return the RunID. NotFound if there is no such run."""

    def scheduled_runs(self, first: str, last: str) -> list[ScheduledRun]:
        """Return the runs whose workflow ids sort from `first` to `last`, oldest first."""

    # for live views

    def latest_change(self) -> datetime | None: ...

    def changed_since(self, moment: datetime | None, limit: int, only: int | None = None) -> list[Changed]:
        """Return the runs that were written to then or later, the last ones first. `only`: this run alone."""

    def summaries(self, run_ids: Sequence[int]) -> list[RunSummary]: ...

    def notices_of(self, run_ids: Sequence[int]) -> list[Notice]:
        """Return all notices that are kept of these runs, in the order of their times."""

    # for audits: runs of this installation, in pages by RunID

    def open_runs(self, after: int, limit: int) -> tuple[list[AuditedRun], int | None]:
        """Return runs that are not over, or were not a moment ago, and where the next page begins."""

    def audited_by_id(self, run_ids: Collection[int]) -> dict[int, AuditedRun]: ...

    def audited_by_uid(self, run_uids: Collection[str]) -> dict[str, AuditedRun]: ...

    def attempts(self, run_id: int, tasks: Collection[int]) -> dict[int, int]:
        """Return the last attempt of each of these tasks; an unknown task is left out."""

    def expired_claims(self, run_ids: Collection[int], before: datetime) -> dict[int, ExpiredClaims]:
        """Return the tasks, by run, that are DEPLOYING by a claim that ran out before that moment."""

    def handovers(self, after: int, limit: int, noticed_since: datetime) -> tuple[list[Handover], int | None]:
        """Return runs that are over and have an export that is not done, or since then a notice that was not delivered
        or an end without a notice; and where the next page begins."""

    def handover(self, run_id: int) -> Handover | None:
        """Return the handover of this run, however long it is over; None if the run is not over."""
