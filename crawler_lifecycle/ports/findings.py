"""Port for audits and their findings on record."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from crawler_lifecycle.contract.audits import AuditOverview, AuditRef, AuditReport, Finding, FindingKind


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
