"""Ports for audits: the findings, and the disagreements of crawl managers with the repair of their rows."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from crawler_lifecycle.flows.rules.ends import Refusal
from crawler_lifecycle.model.audits import AuditOverview, AuditRef, AuditReport, Finding, FindingKind
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.runs.ports import Records


@dataclass(frozen=True, slots=True)
class DoubtfulAttempt:
    """An open manager's attempt without a run, without its run's end, or without a reaction to the end."""

    position: str  # in the order of the pages
    flow_uid: str
    flow_id: str
    member: int
    number: int  # the item's number
    attempt: int
    key: str  # the id for the run's workflow
    request: RunRequest
    began_at: datetime
    ended_at: datetime | None
    run_id: int | None  # from the run's own row; None: there is no run
    run_uid: str | None
    knows_run: bool  # whether the attempt's row agrees with the run's row
    is_failing: bool  # whether a failure in author's code pauses the manager


@dataclass(frozen=True, slots=True)
class UnknownRun:
    """A run under way without an attempt in its flow."""

    flow_id: str
    run_id: int
    run_uid: str


class ManagerAudits(Protocol):
    """The rows of open crawl managers, for the audit."""

    def doubtful(self, before: datetime, *, after: str = "", limit: int) -> list[DoubtfulAttempt]:
        """Return a page with attempts from before the time, by position. `after`: the previous page's last position."""

    def unknown_runs(self, before: datetime, limit: int) -> list[UnknownRun]:
        """Return open runs of graphs and managers from before the time, by RunID."""

    def copy_run(self, flow_uid: str, member: int, attempt: int) -> bool:
        """Write the run, and the run's end, into the attempt again. Return whether there was something to write."""

    def refuse(self, flow_uid: str, member: int, attempt: int, refusal: Refusal) -> bool:
        """End an attempt as refused. Return whether the attempt was open without a run, read again."""


@dataclass(frozen=True, slots=True)
class Acted:
    """Repairs by audits for an open finding."""

    acts: int  # how many repairs
    at: datetime | None  # when the last repair was made
    action: str | None = None  # the last repair in words


class Findings(Protocol):
    """Audits and their findings. A subject has at most one open finding of a kind."""

    def begin(self, audit: AuditRef) -> None: ...

    def acted(self, findings: Collection[tuple[FindingKind, str]]) -> Mapping[tuple[FindingKind, str], Acted]:
        """Return the repairs for the given findings (kind and subject). A closed finding is left out."""

    def report(self, audit: AuditRef, findings: Sequence[Finding]) -> None:
        """Open every new finding; for an open finding, write that the audit saw the finding. Count repairs."""

    def keep_open(self, audit: AuditRef, subjects: Collection[tuple[FindingKind, str]]) -> None:
        """Let `close` spare these findings (kind and subject), because the audit could not judge them."""

    def close(self, audit: AuditRef, kinds: Collection[FindingKind]) -> int:
        """Close the findings of these kinds that the audit has not seen. Return how many were closed."""

    def finish(self, report: AuditReport, keep: timedelta) -> None:
        """Write the audit's end. Delete audits, closed findings and commands for schedules older than `keep`."""

    def overview(self, *, audits: int, findings: int) -> AuditOverview:
        """Return the last `audits` audits, and at most `findings` findings."""


class AuditStore(Protocol):
    @property
    def findings(self) -> Findings: ...

    @property
    def records(self) -> Records: ...
