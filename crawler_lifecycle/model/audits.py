"""The audit's models: the request, every step's input and result, and the records in the database."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from crawler_lifecycle.base.base import Message, Request
from crawler_lifecycle.base.requesters import LONGEST_REQUESTER


class FindingKind(StrEnum):
    """Disagreements between database, Temporal and cluster."""

    UNSUPERVISED = "unsupervised"  # a run is not over and has no open workflow
    LEFTOVER_JOB = "leftover_job"  # a job is there although its run is over
    UNKNOWN_JOB = "unknown_job"  # a job with our label belongs to no run in the database
    EXPORT_PENDING = "export_pending"  # a run is over, its export is pending, and no workflow is open
    EXPORT_FAILED = "export_failed"  # a run is over, and its export failed
    UNDELIVERED = "undelivered"  # the closing notice was not delivered
    CLAIM_EXPIRED = "claim_expired"  # a claim expired long ago, and its task is still DEPLOYING
    WORKFLOW_FAILING = "workflow_failing"  # an open workflow fails the same workflow task again and again
    LOOK_OVERDUE = "look_overdue"  # an open workflow has not looked at its run's jobs for too long
    MISCOUNTED = "miscounted"  # the sums for limits differ from the rows
    FLOW_UNSUPERVISED = "flow_unsupervised"  # a flow is open and has no open workflow
    FLOW_UNANNOUNCED = "flow_unannounced"  # a flow is over, and a notice or event for its end was not delivered
    FLOW_RUN_UNKNOWN = "flow_run_unknown"  # a run of a flow has no recorded attempt
    MANAGED_RUN_MISSING = "managed_run_missing"  # a crawl manager's attempt has no run
    MANAGED_RUN_UNTOLD = "managed_run_untold"  # a manager's attempt does not know its run, or the run's end
    MANAGED_END_UNANSWERED = "managed_end_unanswered"  # a manager has not reacted to an end for too long


class AuditPart(StrEnum):
    """An audit's part. The parts run in the order below."""

    RUNS = "runs"  # open runs, their workflows, and the sums for limits
    JOBS = "jobs"  # jobs in the cluster without an open run
    HANDOVERS = "handovers"  # pending exports and closing notices, after a run's end
    FLOWS = "flows"  # open flows and their workflows, pending announcements, and crawl managers with their runs

    @property
    def kinds(self) -> tuple[FindingKind, ...]:
        """The part's kinds for its findings."""
        return KINDS[self]


KINDS = {
    AuditPart.RUNS: (
        FindingKind.UNSUPERVISED,
        FindingKind.CLAIM_EXPIRED,
        FindingKind.LOOK_OVERDUE,
        FindingKind.WORKFLOW_FAILING,
        FindingKind.MISCOUNTED,
    ),
    AuditPart.JOBS: (FindingKind.LEFTOVER_JOB, FindingKind.UNKNOWN_JOB),
    AuditPart.HANDOVERS: (FindingKind.EXPORT_PENDING, FindingKind.EXPORT_FAILED, FindingKind.UNDELIVERED),
    AuditPart.FLOWS: (
        FindingKind.FLOW_UNSUPERVISED,
        FindingKind.FLOW_UNANNOUNCED,
        FindingKind.FLOW_RUN_UNKNOWN,
        FindingKind.MANAGED_RUN_MISSING,
        FindingKind.MANAGED_RUN_UNTOLD,
        FindingKind.MANAGED_END_UNANSWERED,
    ),
}


class AuditRequest(Request):
    """Request for an audit: a comparison between database, Temporal and cluster."""

    repair: bool = Field(default=False, description="mend the disagreements; false: change and record nothing")
    remove_unknown_jobs: bool = Field(
        default=False,
        description="end and remove also our jobs without a run in the database; only with `repair`, and only if the "
        "setting CRAWLER_AUDIT__REMOVE_UNKNOWN_JOBS allows it",
    )
    requested_by: Annotated[str, Field(max_length=LONGEST_REQUESTER)] | None = Field(
        default=None, description="requester's name; none: a scheduled audit"
    )


class AuditRef(Message):
    """An audit's identity and permissions."""

    audit_uid: str
    began_at: datetime
    repair: bool = False
    remove_unknown_jobs: bool = False
    requested_by: str | None = None


class Finding(Message):
    """A disagreement. A kind and a subject together have at most a single open finding."""

    kind: FindingKind
    subject: str = Field(
        description="run_uid, the job's name where the job does not name its run, the flow's uid, or `installation`"
    )
    message: str
    run_id: int | None = None
    run_uid: str | None = None
    evidence: str | None = Field(default=None, description="last lines of a job that is removed")
    action: str | None = Field(default=None, description="the repair, in a dry run the possible repair")
    problem: str | None = Field(default=None, description="obstacle to the repair")


class AuditStep(Message):
    """Input for a step. The step examines a page in a part.

    `after` is the place where the previous page ended; None: the step examines the part's first page.
    """

    audit: AuditRef
    part: AuditPart
    after: str | None = None


class PartReport(Message):
    """Result for a part: counts over all its pages."""

    examined: int = Field(default=0, description="number of compared runs, jobs or flows")
    found: dict[FindingKind, int] = Field(default={}, description="number of findings by kind")
    acted: int = Field(default=0, description="number of findings with a repair")
    unknown: int = Field(default=0, description="number of runs whose jobs could not be observed")
    problem: str | None = Field(default=None, description="why the part could not finish; none: the part finished")

    def with_page(self, page: "AuditPage") -> "PartReport":
        """Return the report after adding a further page's counts."""
        found = {kind: self.found.get(kind, 0) + page.found.get(kind, 0) for kind in {*self.found, *page.found}}
        return PartReport(
            examined=self.examined + page.examined,
            found=dict(sorted(found.items())),
            acted=self.acted + page.acted,
            unknown=self.unknown + page.unknown,
            problem=page.problem or self.problem,
        )


class AuditPage(PartReport):
    """A step's result: the page's counts. With a `problem`, the audit closes none among the part's open findings."""

    findings: list[Finding] = Field(default=[], description="the first findings, which a dry run records nowhere else")
    rest: str | None = Field(default=None, description="place where the page ended; none: the page was the last")


class AuditReport(Message):
    """The result for the audit's workflow."""

    audit: AuditRef
    parts: dict[AuditPart, PartReport] = {}
    findings: list[Finding] = Field(default=[], description="the first findings")

    @property
    def is_complete(self) -> bool:
        """Whether every part has a report without a problem."""
        return len(self.parts) == len(AuditPart) and not any(part.problem for part in self.parts.values())

    @property
    def findings_count(self) -> int:
        return sum(sum(part.found.values()) for part in self.parts.values())


class AuditContinuation(Message):
    """State for the audit's next workflow execution, after a continue-as-new."""

    report: AuditReport
    part: AuditPart = Field(description="part to continue with")
    after: str | None = Field(default=None, description="place in the part where the last page ended")


class FindingRecord(Message):
    """A finding in the database, with its repairs. A later audit without the finding closes the finding."""

    kind: FindingKind
    subject: str
    run_id: int | None
    run_uid: str | None
    message: str
    evidence: str | None
    first_seen_at: datetime
    last_seen_at: datetime
    closed_at: datetime | None = Field(description="time of the first audit without the finding")
    action: str | None = Field(description="the last repair")
    acted_at: datetime | None = Field(description="time of the last repair")
    acts: int = Field(description="number of repairs")
    problem: str | None = Field(description="obstacle to the repair")


class AuditRecord(Message):
    """An audit with repair in the database. A dry run has no record."""

    audit_uid: str
    began_at: datetime
    finished_at: datetime | None
    complete: bool
    parts: dict[AuditPart, PartReport]
    requested_by: str | None = Field(default=None, description="requester's name; none: a scheduled audit")


class AuditOverview(Message):
    """The last audits, newest first, and their findings."""

    audits: list[AuditRecord]
    last_complete_at: datetime | None = Field(description="end of the last complete audit")
    open: dict[FindingKind, int] = Field(description="number of open findings by kind")
    open_since: dict[FindingKind, datetime] = Field(
        default={}, description="time at which an audit first saw the oldest open finding, by kind"
    )
    findings: list[FindingRecord] = Field(description="open findings first, then closed findings, newest first")


class AuditView(AuditOverview):
    """The last audits, whether they are in time, and when the next audit is due."""

    next_due: datetime | None = Field(
        default=None, description="time of the next scheduled audit; none: no schedule is active, or it cannot be read"
    )
    problem: str | None = Field(default=None, description="why no audit was complete lately, or cannot be known")
