"""Port for the audit of crawl managers: attempts and runs that do not agree, and the repair of their rows."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from crawler_lifecycle.flows.rules.ends import Refusal
from crawler_lifecycle.model.requests import RunRequest


@dataclass(frozen=True, slots=True)
class DoubtfulAttempt:
    """An open manager's attempt without a run, without its run's end, or without a reaction to the end."""

    place: str  # for the next page
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
    is_told: bool  # whether the attempt's row agrees with the run's row
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
        """Return a page with attempts from before the time, by place."""

    def unknown_runs(self, before: datetime, limit: int) -> list[UnknownRun]:
        """Return open runs of graphs and managers from before the time, by RunID."""

    def tell(self, flow_uid: str, member: int, attempt: int) -> bool:
        """Write the run, and the run's end, into the attempt again. Return whether there was something to write."""

    def refuse(self, flow_uid: str, member: int, attempt: int, refusal: Refusal) -> bool:
        """End an attempt as refused. Return whether the attempt was open without a run, read again."""
