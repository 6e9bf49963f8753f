"""What does an audit take, and what does it tell?"""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from crawler_lifecycle.contract.base import Message, Request


class FindingKind(StrEnum):
    """What disagrees."""

    UNSUPERVISED = "unsupervised"  # a run that is not over, and no open workflow
    LEFTOVER_JOB = "leftover_job"  # a job whose run is over
    UNKNOWN_JOB = "unknown_job"  # a job of ours whose run nobody knows
    EXPORT_PENDING = "export_pending"  # the run is over, its export still to come, and no open workflow
    EXPORT_FAILED = "export_failed"
    UNDELIVERED = "undelivered"  # the closing notice
    CLAIM_EXPIRED = "claim_expired"  # a task about to be deployed, long after whoever claimed it may still do so
    WORKFLOW_FAILING = "workflow_failing"  # the workflow is open, and fails the same workflow task again and again
    LOOK_OVERDUE = "look_overdue"  # the workflow is open, but does not look


class AuditPart(StrEnum):
    """What is compared, one after the other."""

    RUNS = "runs"
    JOBS = "jobs"
    HANDOVERS = "handovers"

    @property
    def kinds(self) -> tuple[FindingKind, ...]:
        return KINDS[self]


KINDS = {
    AuditPart.RUNS: (
        FindingKind.UNSUPERVISED,
        FindingKind.CLAIM_EXPIRED,
        FindingKind.LOOK_OVERDUE,
        FindingKind.WORKFLOW_FAILING,
    ),
    AuditPart.JOBS: (FindingKind.LEFTOVER_JOB, FindingKind.UNKNOWN_JOB),
    AuditPart.HANDOVERS: (FindingKind.EXPORT_PENDING, FindingKind.EXPORT_FAILED, FindingKind.UNDELIVERED),
}


class AuditRequest(Request):
    """Compare database, Temporal and cluster, and mend what disagrees."""

    repair: bool = Field(default=False, description="else nothing is changed, not even written down")
    remove_unknown_jobs: bool = Field(
        default=False, description="end and remove also jobs of ours whose run nobody knows; only with `repair`"
    )


class AuditRef(Message):
    """Which audit, and what it may do."""

    audit_uid: str
    began_at: datetime
    repair: bool = False
    remove_unknown_jobs: bool = False


class Finding(Message):
    """Something that disagrees; `subject` tells it from others of its kind."""

    kind: FindingKind
    subject: str
    message: str
    run_id: int | None = None
    run_uid: str | None = None
    evidence: str | None = Field(default=None, description="what a job printed last, before it is removed")
    action: str | None = Field(default=None, description="what was done, or would be")
    problem: str | None = Field(default=None, description="why it could not be done")


class AuditStep(Message):
    """A page of a part; `after`: where the page before ended."""

    audit: AuditRef
    part: AuditPart
    after: str | None = None


class AuditPage(Message):
    """`unknown`: how many could not be judged. `rest`: where the next page begins; none: this was the last."""

    examined: int = 0
    found: dict[FindingKind, int] = {}
    acted: int = 0
    unknown: int = 0
    findings: list[Finding] = Field(default=[], description="some of them; a dry run has no other place for them")
    rest: str | None = None
    problem: str | None = Field(default=None, description="why what it did not find is not mended for that")


class PartReport(Message):
    """What came of a part. `problem`: why it could not be finished."""

    examined: int = 0
    found: dict[FindingKind, int] = {}
    acted: int = 0
    unknown: int = 0
    problem: str | None = None

    def with_page(self, page: AuditPage) -> "PartReport":
        found = {kind: self.found.get(kind, 0) + page.found.get(kind, 0) for kind in {*self.found, *page.found}}
        return PartReport(
            examined=self.examined + page.examined,
            found=dict(sorted(found.items())),
            acted=self.acted + page.acted,
            unknown=self.unknown + page.unknown,
            problem=page.problem or self.problem,
        )


class AuditReport(Message):
    """The result of the workflow."""

    audit: AuditRef
    parts: dict[AuditPart, PartReport] = {}
    findings: list[Finding] = Field(default=[], description="the first of them")

    @property
    def is_complete(self) -> bool:
        return len(self.parts) == len(AuditPart) and not any(part.problem for part in self.parts.values())

    @property
    def found(self) -> int:
        return sum(sum(part.found.values()) for part in self.parts.values())


class AuditContinuation(Message):
    """What an execution hands to the one that continues it."""

    report: AuditReport
    part: AuditPart
    after: str | None = None


class FindingRecord(Message):
    """A finding as it is kept."""

    kind: FindingKind
    subject: str
    run_id: int | None
    run_uid: str | None
    message: str
    evidence: str | None
    first_seen_at: datetime
    last_seen_at: datetime
    closed_at: datetime | None = Field(description="when it was not found any more")
    action: str | None = Field(description="what was done last")
    acted_at: datetime | None
    acts: int = Field(description="how often something was done")
    problem: str | None


class AuditRecord(Message):
    """A repairing audit as it is kept."""

    audit_uid: str
    began_at: datetime
    finished_at: datetime | None
    complete: bool
    parts: dict[AuditPart, PartReport]


class AuditOverview(Message):
    """The last audits, newest first, and what disagrees as far as they know."""

    audits: list[AuditRecord]
    last_complete_at: datetime | None
    open: dict[FindingKind, int]
    findings: list[FindingRecord] = Field(description="open ones first, then the closed ones, newest first")
