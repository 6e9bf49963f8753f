"""What is read of runs, told to their workflows and kept of their exports?"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from crawler_lifecycle.contract.notices import ExportEvent, Notice
from crawler_lifecycle.contract.records import (
    Changed,
    ExportRecord,
    RunDetails,
    RunOverview,
    RunRecord,
    RunSummary,
    TaskRecord,
)
from crawler_lifecycle.contract.states import ExportState, RunStatus, TaskStatus
from crawler_lifecycle.contract.steps import ExportsOwed, RunRef


@dataclass(frozen=True, slots=True)
class Made:
    """A run, by the workflow that made it."""

    workflow_id: str
    first_execution: str
    created_at: datetime
    finished_at: datetime | None


class Records(Protocol):
    """Reading for people and doors."""

    def installation(self) -> str:
        """The installation's UUID; NotReady if the schema is missing or of another version."""

    def page(
        self, *, limit: int, before: int | None, status: RunStatus | None, crawler: str | None
    ) -> list[RunSummary]:
        """Newest first; `before` is the RunID a page ended with."""

    def details(self, run_id: int) -> RunDetails: ...

    def overview(self, run_id: int) -> RunOverview: ...

    def tasks(self, run_id: int, *, first: int, limit: int, status: TaskStatus | None = None) -> list[TaskRecord]:
        """By number, from `first` on."""

    def latest_of(self, workflow_id: str) -> RunRecord | None:
        """The last run that was made under this workflow id."""

    def run_id(self, run_uid: str) -> int:
        """NotFound if there is none."""

    def find(self, workflow_id: str, first_execution_run_id: str) -> RunRecord | None: ...

    def made_by(self, first: str, last: str) -> list[Made]:
        """Of all workflows whose ids sort between these, themselves included; oldest first."""


class Changes(Protocol):
    """What was written of runs, for live views."""

    def latest(self) -> datetime | None: ...

    def since(self, moment: datetime | None, limit: int, only: int | None = None) -> list[Changed]:
        """The runs of which something was written then or later, the last ones first; or only this one of them."""

    def summaries(self, run_ids: Sequence[int]) -> list[RunSummary]:
        """As they are now."""


class Notices(Protocol):
    """The notices themselves, kept with their runs: whoever can read the database can tell them on, later as well."""

    def keep(self, run: RunRef, notice: Notice) -> Notice:
        """The one to send: under one id the same is told on every try, so the first one. Of progress only the last is
        kept."""

    def of(self, run_ids: Sequence[int]) -> list[Notice]:
        """All that are kept of these runs, in the order of their times."""


@dataclass(frozen=True, slots=True)
class Nudge:
    run_id: int
    run_uid: str
    workflow_id: str
    number: int


class Nudges(Protocol):
    def claim(self, run_uids: Iterable[str]) -> list[Nudge]:
        """Of these runs, those that are not over and acknowledged their last nudge, each with its next number.

        Some of them if something went wrong on the way: the others can be claimed as before."""

    def open_among(self, run_uids: Iterable[str]) -> set[str]:
        """Which of these runs are not over."""

    def unanswered(self) -> list[Nudge]:
        """The last nudge of each run of ours that is not over and has not acknowledged it: nobody may have sent it."""


class Exports(Protocol):
    """The `exports` table, read also by pipelines."""

    def open(self, run: RunRef, event: ExportEvent) -> ExportRecord:
        """The row of this event id, made (pending) unless it is there already."""

    def event(self, event_id: str) -> ExportEvent | None:
        """As it was kept last."""

    def settle(
        self,
        run: RunRef,
        event_id: str,
        state: ExportState,
        location: str | None,
        problem: str | None,
        event: ExportEvent | None = None,
    ) -> None:
        """`event`: as it was announced, or is to be; none leaves it as it was kept."""

    def owed(self, run_id: int) -> ExportsOwed:
        """Of all ends that the run has had, what is not done."""
