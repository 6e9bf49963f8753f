"""The audit: compare database, Temporal and cluster, part by part and page by page, and repair where they disagree.

The audit stands outside every run, so it also finds runs without a workflow.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, is_cancelled_exception

from crawler_lifecycle.activities.audit_handovers import HandoverAudit
from crawler_lifecycle.activities.audit_jobs import JobAudit
from crawler_lifecycle.activities.audit_runs import RunAudit
from crawler_lifecycle.activities.auditing import AuditActivities
from crawler_lifecycle.contract.audits import (
    AuditContinuation,
    AuditPage,
    AuditPart,
    AuditReport,
    AuditRequest,
    AuditStep,
    PartReport,
)
from crawler_lifecycle.domain.naming import AUDIT_WORKFLOW
from crawler_lifecycle.workflows.inputs import NO_INPUT, decoded, failing_with_activity_message
from crawler_lifecycle.workflows.options import AUDIT, WRITE

FINDINGS_RETURNED = 200  # Temporal's payloads end at 2 MB; the database keeps every finding
STEPS: dict[AuditPart, Callable[[Any, AuditStep], Awaitable[AuditPage]]] = {
    AuditPart.RUNS: RunAudit.audit_runs,
    AuditPart.JOBS: JobAudit.audit_jobs,
    AuditPart.HANDOVERS: HandoverAudit.audit_handovers,
}


@workflow.defn(name=AUDIT_WORKFLOW)
class AuditWorkflow:
    @workflow.run
    async def run(self, raw: RawValue = NO_INPUT) -> AuditReport:
        report, first, after = await _begin(raw)
        parts = list(AuditPart)
        for part in parts[parts.index(first) :]:
            report = await _audit_part(report, part, after)
            after = None
        await workflow.execute_activity_method(AuditActivities.finish_audit, report, **WRITE)
        return report


async def _begin(raw: RawValue) -> tuple[AuditReport, AuditPart, str | None]:
    """Return the report so far, the first part to audit, and the last key from the part's earlier pages."""
    if workflow.info().continued_run_id:
        carried = decoded(AuditContinuation, raw)
        return carried.report, carried.part, carried.after
    request = decoded(AuditRequest, raw)
    with failing_with_activity_message():
        audit = await workflow.execute_activity_method(AuditActivities.begin_audit, request, **WRITE)
    return AuditReport(audit=audit), AuditPart.RUNS, None


async def _audit_part(report: AuditReport, part: AuditPart, after: str | None) -> AuditReport:
    """Audit a part and add its result to the report. A failed part is reported and does not prevent other parts."""
    try:
        while True:
            step = AuditStep(audit=report.audit, part=part, after=after)
            page = await workflow.execute_activity_method(STEPS[part], step, **AUDIT)
            report, after = _with_page(report, part, page), page.rest
            if after is None:
                return report
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(AuditContinuation(report=report, part=part, after=after))
    except ActivityError as error:
        if is_cancelled_exception(error):
            raise
        workflow.logger.error("the audit of %s is not complete: %s", part, error.cause)
        problem = str(error.cause or error)[:1000]
        so_far = report.parts.get(part, PartReport())
        return report.model_copy(
            update={"parts": {**report.parts, part: so_far.model_copy(update={"problem": problem})}}
        )


def _with_page(report: AuditReport, part: AuditPart, page: AuditPage) -> AuditReport:
    parts = {**report.parts, part: report.parts.get(part, PartReport()).with_page(page)}
    findings = [*report.findings, *page.findings][:FINDINGS_RETURNED]
    return report.model_copy(update={"parts": parts, "findings": findings})
