"""What does an audit read, and where does it write what it found?"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from crawler_lifecycle.contract.audits import AuditOverview, AuditRef, AuditReport, Finding, FindingKind, FindingRecord
from crawler_lifecycle.domain.audit import AuditedRun


@dataclass(frozen=True, slots=True)
class ExpiredClaims:
    tasks: Sequence[int]
    since: datetime


@dataclass(frozen=True, slots=True)
class Handover:
    """A run that is over, and what is known of its notices and its failed exports."""

    run: AuditedRun
    failed_at: datetime | None = None
    logged: frozenset[str] = frozenset()
    silent: bool = False  # its closing notice was never tried


class AuditedRuns(Protocol):
    """Runs of this installation, in pages by RunID. Statements grow with pages, not with runs."""

    def open_runs(self, after: int, limit: int) -> tuple[list[AuditedRun], int | None]:
        """Those that are not over, or were not a moment ago; and where the next page begins."""

    def by_id(self, run_ids: Collection[int]) -> dict[int, AuditedRun]:
        """As they are now."""

    def by_uid(self, run_uids: Collection[str]) -> dict[str, AuditedRun]: ...

    def attempts(self, run_id: int, tasks: Collection[int]) -> dict[int, int]:
        """The last attempt of each of these tasks; one that is not known is left out."""

    def expired_claims(self, run_ids: Collection[int], before: datetime) -> dict[int, ExpiredClaims]:
        """Tasks that are DEPLOYING by a claim that ran out before that moment, by run."""

    def handovers(self, after: int, limit: int, noticed_since: datetime) -> tuple[list[Handover], int | None]:
        """Runs that are over and have an export that is not done, or since then a notice that was not delivered, or an
        end that nobody tried to tell; and where the next page begins."""

    def handover(self, run_id: int) -> Handover | None:
        """The same of one run, however long it is over; None if it is not over."""


@dataclass(frozen=True, slots=True)
class Acted:
    """How often, and when last, something was done about what is still open."""

    acts: int
    at: datetime | None
    action: str | None = None


class Findings(Protocol):
    """What audits found. A thing has one open finding at most."""

    def begin(self, audit: AuditRef) -> None: ...

    def acted(self, findings: Collection[tuple[FindingKind, str]]) -> Mapping[tuple[FindingKind, str], Acted]:
        """Of these, by kind and subject, those that are open."""

    def report(self, audit: AuditRef, findings: Sequence[Finding]) -> None:
        """Open, or seen again; with what was done, if anything."""

    def keep(self, audit: AuditRef, subjects: Collection[tuple[FindingKind, str]]) -> None:
        """These could not be judged: what was known of them stays as it is."""

    def close(self, audit: AuditRef, kinds: Collection[FindingKind]) -> int:
        """Those of these kinds that this audit has not seen have vanished; how many."""

    def finish(self, report: AuditReport, keep: timedelta) -> None:
        """What is closed for longer than `keep` is forgotten, and so are audits."""

    def overview(self, *, audits: int, findings: int) -> AuditOverview:
        """Up to so many of each."""

    def of_run(self, run_uid: str) -> list[FindingRecord]:
        """Oldest first."""
