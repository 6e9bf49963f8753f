"""Audit part `flows`: find open flows without a workflow, and give them a supervisor again."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from temporalio import activity

from crawler_lifecycle.activities import auditing
from crawler_lifecycle.contract.audits import AuditPage, AuditStep, Finding, FindingKind
from crawler_lifecycle.domain.audit.subjects import AuditPatience, WorkflowInfo, timestamp
from crawler_lifecycle.domain.naming import flow_workflow_id
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.ports import Findings, FlowRecords, FlowSupervisors, SilentFlow

FLOWS_IN_A_PAGE = 500  # flows per activity; the next page has the further flows


@dataclass(frozen=True)
class FlowAudit:
    records: FlowRecords
    findings: Findings
    supervisors: FlowSupervisors
    patience: AuditPatience

    @activity.defn
    async def audit_flows(self, step: AuditStep) -> AuditPage:
        """Start workflows for open flows without a workflow. A flow with a recent write has a supervisor."""
        now = datetime.now(UTC)
        page = await asyncio.to_thread(
            self.records.silent, now - self.patience.workflow, after=step.after or "", limit=FLOWS_IN_A_PAGE
        )
        workflows = await auditing.gather_limited(self._describe, page)
        findings = [
            _unsupervised(flow, workflow)
            for flow, workflow in zip(page, workflows, strict=True)
            if _is_unsupervised(workflow, now, self.patience)
        ]
        flows = {flow.uid: flow for flow in page}

        async def act(finding: Finding) -> Finding:
            return await self._resume(flows[finding.subject], finding)

        settled = await auditing.Ledger(step.audit, self.findings).settle(findings, act, examined=len(page))
        return settled.model_copy(update={"rest": _rest(page)})

    async def _describe(self, flow: SilentFlow) -> WorkflowInfo:
        try:
            return await self.supervisors.describe(flow_workflow_id(flow.uid))
        except LifecycleError as error:
            return WorkflowInfo(is_open=False, problem=auditing.message_or_raise(error))

    async def _resume(self, flow: SilentFlow, finding: Finding) -> Finding:
        """Nudge the flow's workflow: the nudge starts a workflow where none is open."""
        if finding.problem:
            return finding
        try:
            await self.supervisors.nudge_flow(flow.uid, flow.id)
        except LifecycleError as error:
            return finding.model_copy(update={"problem": auditing.message_or_raise(error)})
        return finding.model_copy(update={"action": auditing.RESUMED})


def _is_unsupervised(workflow: WorkflowInfo, now: datetime, patience: AuditPatience) -> bool:
    """Return whether the flow has no workflow. After a workflow closed a moment ago, another may follow."""
    return not workflow.is_open and (workflow.ended_at is None or now - workflow.ended_at >= patience.workflow)


def _unsupervised(flow: SilentFlow, workflow: WorkflowInfo) -> Finding:
    if workflow.problem:
        state = "cannot be described"
    elif workflow.ended_at is None:
        state = "is not there"
    else:
        state = f"has {workflow.end} at {timestamp(workflow.ended_at)}"
    message = f"flow {flow.id} is {flow.state}, and its workflow {state}"
    return Finding(
        kind=FindingKind.FLOW_UNSUPERVISED, subject=flow.uid, message=message, problem=workflow.problem or None
    )


def _rest(page: Sequence[SilentFlow]) -> str | None:
    return page[-1].uid if len(page) == FLOWS_IN_A_PAGE else None
