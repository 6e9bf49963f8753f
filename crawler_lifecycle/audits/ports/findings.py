"""Port for audits and their findings."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from crawler_lifecycle.model.audits import AuditOverview, AuditRef, AuditReport, Finding, FindingKind
from crawler_lifecycle.runs.ports.records import Records


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
