"""Activities that begin and finish an audit; its parts have modules of their own (`audit_runs` and so on)."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from temporalio import activity

from crawler_lifecycle.contract.audits import AuditRef, AuditReport, AuditRequest
from crawler_lifecycle.contract.steps.run import Counted
from crawler_lifecycle.ports import Findings


@dataclass(frozen=True)
class AuditActivities:
    findings: Findings
    kept_for: timedelta  # age at which audits and closed findings are deleted
    remove_unknown_jobs: bool = False

    @activity.defn(no_thread_cancel_exception=True)
    def begin_audit(self, step: AuditRequest) -> AuditRef:
        """Begin the execution's only audit, also after several tries."""
        audit = AuditRef(
            audit_uid=activity.info().workflow_run_id or "",
            began_at=datetime.now(UTC),
            repair=step.repair,
            remove_unknown_jobs=step.remove_unknown_jobs or self.remove_unknown_jobs,
        )
        if audit.repair:
            self.findings.begin(audit)
        return audit

    @activity.defn(no_thread_cancel_exception=True)
    def finish_audit(self, report: AuditReport) -> Counted:
        """Close the open findings that this audit did not see again, for the parts examined to their end."""
        if not report.audit.repair:
            return Counted(count=0)
        kinds = [kind for part, result in report.parts.items() if result.problem is None for kind in part.kinds]
        closed = self.findings.close(report.audit, kinds) if kinds else 0
        self.findings.finish(report, self.kept_for)
        return Counted(count=closed)
