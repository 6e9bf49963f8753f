"""The workflow of the audit: compare database, Temporal and cluster, and repair disagreements.

The audit goes through its parts, page by page. The audit stands outside of every run, so it
also finds runs without a workflow.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, is_cancelled_exception

from crawler_lifecycle.audits.activities.auditing import AuditActivities
from crawler_lifecycle.audits.activities.flows import FlowAudit
from crawler_lifecycle.audits.activities.handovers import HandoverAudit
from crawler_lifecycle.audits.activities.jobs import JobAudit
from crawler_lifecycle.audits.activities.runs import RunAudit
from crawler_lifecycle.model.audits import (
    AuditContinuation,
    AuditPage,
    AuditPart,
    AuditReport,
    AuditRequest,
    AuditStep,
    PartReport,
)
from crawler_lifecycle.model.naming import AUDIT_WORKFLOW
from crawler_lifecycle.temporal.converter import NO_INPUT, decoded, failing_with_activity_message
from crawler_lifecycle.temporal.options import AUDIT, WRITE

FINDINGS_RETURNED = 200  # in the report, since Temporal refuses a payload over 2 MB; the database keeps every finding
LONGEST_PROBLEM = 1000  # characters
PAGE_ACTIVITIES: dict[AuditPart, Callable[[Any, AuditStep], Awaitable[AuditPage]]] = {
    AuditPart.RUNS: RunAudit.audit_runs,
    AuditPart.JOBS: JobAudit.audit_jobs,
    AuditPart.HANDOVERS: HandoverAudit.audit_handovers,
    AuditPart.FLOWS: FlowAudit.audit_flows,
}


@workflow.defn(name=AUDIT_WORKFLOW)
class AuditWorkflow:
    @workflow.run
    async def run(self, raw: RawValue = NO_INPUT) -> AuditReport:
        report, first_part, after = await _begin(raw)
        parts = list(AuditPart)
        for part in parts[parts.index(first_part) :]:
            report = await _audit_part(report, part, after)
            after = None  # the next part begins with its first page
        await workflow.execute_activity_method(AuditActivities.finish_audit, report, **WRITE)
        return report


async def _begin(raw: RawValue) -> tuple[AuditReport, AuditPart, str | None]:
    """Return the report so far, the first part to audit, and where the part's last page ended.

    A new audit begins with the part `runs` and without a page; a continued audit resumes after its last page.
    """
    if workflow.info().continued_run_id:
        carried = decoded(AuditContinuation, raw)
        return carried.report, carried.part, carried.after
    request = decoded(AuditRequest, raw)
    with failing_with_activity_message():
        audit = await workflow.execute_activity_method(AuditActivities.begin_audit, request, **WRITE)
    return AuditReport(audit=audit), AuditPart.RUNS, None


async def _audit_part(report: AuditReport, part: AuditPart, after: str | None) -> AuditReport:
    """Audit a part from the place `after` on, and return the report with the result.

    A part that fails is reported with its problem, and does not prevent the other parts.
    """
    try:
        while True:
            step = AuditStep(audit=report.audit, part=part, after=after)
            page = await workflow.execute_activity_method(PAGE_ACTIVITIES[part], step, **AUDIT)
            report, after = _with_page(report, part, page), page.rest
            if after is None:  # the page was the part's last page
                return report
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(AuditContinuation(report=report, part=part, after=after))
    except ActivityError as error:
        if is_cancelled_exception(error):
            raise
        workflow.logger.error("the audit of %s is not complete: %s", part, error.cause)
        problem = str(error.cause or error)[:LONGEST_PROBLEM]
        result = report.parts.get(part, PartReport()).model_copy(update={"problem": problem})
        return report.model_copy(update={"parts": {**report.parts, part: result}})


def _with_page(report: AuditReport, part: AuditPart, page: AuditPage) -> AuditReport:
    parts = {**report.parts, part: report.parts.get(part, PartReport()).with_page(page)}
    findings = [*report.findings, *page.findings][:FINDINGS_RETURNED]
    return report.model_copy(update={"parts": parts, "findings": findings})
