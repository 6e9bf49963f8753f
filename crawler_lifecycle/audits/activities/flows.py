"""Audit part `flows`: flows without a workflow, and the crawls of crawl managers.

The first pages have flows: `FlowAudit` starts a workflow for open flows without a workflow, and for ended flows with a
reopened run or a pending announcement. The last pages have attempts of crawl managers: `ManagerAudit` compares them
with their runs, and finds ends to which no manager has reacted.

A page ends with its last entry's position, after which the next page begins: a flow's uid, or MANAGERS with an
attempt's position.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from temporalio import activity

from crawler_lifecycle.audits.activities import auditing
from crawler_lifecycle.audits.ports import Acted, DoubtfulAttempt, Findings, ManagerAudits
from crawler_lifecycle.audits.rules import flows as rules
from crawler_lifecycle.delivery.ports import FlowSupervisors
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.flows.ports.ledger import FlowEnds, UnannouncedFlow
from crawler_lifecycle.flows.ports.records import FlowRecords, SilentFlow
from crawler_lifecycle.flows.rules import ends
from crawler_lifecycle.model.audits import AuditPage, AuditStep, Finding, FindingKind
from crawler_lifecycle.model.naming import flow_workflow_id
from crawler_lifecycle.model.supervision import AuditPatience, WorkflowInfo
from crawler_lifecycle.temporal.together import gather_limited

FLOWS_IN_A_PAGE = 500
ATTEMPTS_IN_A_PAGE = 500
MANAGERS = "managers/"
MOST_UNKNOWN_RUNS = 500  # in an audit
NOT_DESCRIBED = WorkflowInfo(is_open=False)
# actions in findings
MENDED, STARTED, REFUSED = "its rows were mended", "its workflow was started again", "it was ended as refused"
AuditedFlow = SilentFlow | UnannouncedFlow


@dataclass(frozen=True)
class ManagerAudit:
    """Finds attempts of crawl managers at odds with their runs, and mends or starts them again."""

    managers: ManagerAudits
    findings: Findings
    supervisors: FlowSupervisors
    patience: AuditPatience

    async def page(self, step: AuditStep, after: str) -> AuditPage:
        """Compare a page with attempts and their runs; the first page also has runs that no attempt knows.

        `after`: the last attempt's position on the page before.
        """
        before = datetime.now(UTC) - self.patience.stuck
        page = await asyncio.to_thread(self.managers.doubtful, before, after=after, limit=ATTEMPTS_IN_A_PAGE)
        unknown = [] if after else await asyncio.to_thread(self.managers.unknown_runs, before, MOST_UNKNOWN_RUNS)
        workflows = await gather_limited(self._describe, page)
        doubtful = {attempt.key: (attempt, workflow) for attempt, workflow in zip(page, workflows, strict=True)}
        disagreements = [_attempt_finding(attempt, workflow) for attempt, workflow in doubtful.values()]
        disagreements += [rules.run_unknown(run.flow_id, run.run_id, run.run_uid) for run in unknown]

        async def act(finding: Finding) -> Finding:
            if finding.problem or finding.subject not in doubtful:
                return finding
            try:
                action = await self._mend(finding.kind, *doubtful[finding.subject])
            except LifecycleError as error:
                return finding.model_copy(update={"problem": auditing.message_or_raise(error)})
            return finding.model_copy(update={"action": action})

        ledger = auditing.AuditLedger(step.audit, self.findings)
        settled = await ledger.settle(disagreements, act, examined=len(page) + len(unknown))
        return settled.model_copy(update={"rest": _rest_of_attempts(page)})

    async def _describe(self, attempt: DoubtfulAttempt) -> WorkflowInfo:
        """Describe the attempt's workflow. With a run, the run's row shows more than its workflow."""
        if attempt.run_id is not None:
            return NOT_DESCRIBED
        try:
            return await self.supervisors.describe(attempt.key)
        except LifecycleError as error:
            return WorkflowInfo(is_open=False, problem=auditing.message_or_raise(error))

    async def _mend(self, kind: FindingKind, attempt: DoubtfulAttempt, workflow: WorkflowInfo) -> str | None:
        """Mend the attempt, and return the action."""
        ids = attempt.flow_uid, attempt.member, attempt.attempt
        if kind is FindingKind.MANAGED_RUN_UNTOLD:
            return MENDED if await asyncio.to_thread(self.managers.copy_run, *ids) else None
        if kind is not FindingKind.MANAGED_RUN_MISSING or workflow.is_open:
            return None  # to an end without a reaction, only the manager can react
        if ends.is_missing(workflow):
            await self.supervisors.start_crawl(attempt.key, attempt.request)
            return STARTED
        refusal = ends.refusal(workflow, await self.supervisors.failure(attempt.key))
        if refusal is None:
            return None
        return REFUSED if await asyncio.to_thread(self.managers.refuse, *ids, refusal) else None


def _attempt_finding(attempt: DoubtfulAttempt, workflow: WorkflowInfo) -> Finding:
    name = f"item {attempt.number} of flow {attempt.flow_id} (attempt {attempt.attempt})"
    if attempt.run_id is None:
        return rules.run_missing(attempt.key, name, attempt.began_at, workflow)
    if not attempt.knows_run or attempt.ended_at is None:
        return rules.run_untold(attempt.key, name, attempt.run_id, attempt.run_uid)
    return rules.end_unanswered(attempt.key, name, attempt.ended_at, is_failing=attempt.is_failing)


def _rest_of_attempts(page: Sequence[DoubtfulAttempt]) -> str | None:
    return page[-1].position if len(page) == ATTEMPTS_IN_A_PAGE else None


@dataclass(frozen=True)
class FlowAudit:
    """Finds flows without a workflow, and starts one."""

    records: FlowRecords
    ends: FlowEnds
    findings: Findings
    supervisors: FlowSupervisors
    patience: AuditPatience
    managers: ManagerAudit

    @activity.defn
    async def audit_flows(self, step: AuditStep) -> AuditPage:
        """Start workflows for flows without a workflow that need one: see `_page`."""
        if step.after is not None and step.after.startswith(MANAGERS):
            page_of_managers = await self.managers.page(step, step.after.removeprefix(MANAGERS))
            rest = page_of_managers.rest
            return page_of_managers.model_copy(update={"rest": None if rest is None else f"{MANAGERS}{rest}"})
        page = await self._page(step.after or "")
        workflows = await gather_limited(self._describe, page)
        ledger, now = auditing.AuditLedger(step.audit, self.findings), datetime.now(UTC)
        pairs = list(zip(page, workflows, strict=True))
        findings = [
            _finding(flow, workflow) for flow, workflow in pairs if rules.is_unsupervised(workflow, now, self.patience)
        ]
        # an open workflow may still announce the end, or fail again: the finding keeps the number of its repairs
        await ledger.keep_open(_at_work(pairs))
        flows = {flow.uid: flow for flow in page}
        repairs = await asyncio.to_thread(
            self.findings.acted, [(finding.kind, finding.subject) for finding in findings]
        )

        async def act(finding: Finding) -> Finding:
            earlier = repairs.get((finding.kind, finding.subject), Acted(0, None))
            problem = finding.problem or rules.reason_to_wait(finding, earlier.acts, earlier.at, now, self.patience)
            return await self._resume(flows[finding.subject], finding.model_copy(update={"problem": problem}))

        settled = await ledger.settle(findings, act, examined=len(page))
        return settled.model_copy(update={"rest": _rest(page)})

    async def _page(self, after: str) -> Sequence[AuditedFlow]:
        """Return the next flows by uid: open, or ended with a reopened run or a pending announcement.

        Flows with a recent write are left out: a supervisor is at work. Announcements are pending `patience.handover`
        after the end, and too old to repeat `patience.replay` after it.
        """
        now, patience, limit = datetime.now(UTC), self.patience, FLOWS_IN_A_PAGE
        silent = await asyncio.to_thread(self.records.silent, now - patience.workflow, after=after, limit=limit)
        reopened = await asyncio.to_thread(self.records.reopened, now - patience.workflow, after=after, limit=limit)
        unannounced = await asyncio.to_thread(
            self.ends.unannounced, now - patience.replay, now - patience.handover, after=after, limit=limit
        )
        # a flow's last entry counts: one that needs a supervisor does not wait through pauses between announcements
        flows: list[AuditedFlow] = [*unannounced, *silent, *reopened]
        return sorted({flow.uid: flow for flow in flows}.values(), key=lambda flow: flow.uid)[:limit]

    async def _describe(self, flow: AuditedFlow) -> WorkflowInfo:
        try:
            return await self.supervisors.describe(flow_workflow_id(flow.uid))
        except LifecycleError as error:
            return WorkflowInfo(is_open=False, problem=auditing.message_or_raise(error))

    async def _resume(self, flow: AuditedFlow, finding: Finding) -> Finding:
        """Nudge the flow's workflow: the nudge starts a workflow where none is open."""
        if finding.problem:
            return finding
        try:
            await self.supervisors.nudge_flow(flow.uid, flow.id)
        except LifecycleError as error:
            return finding.model_copy(update={"problem": auditing.message_or_raise(error)})
        return finding.model_copy(update={"action": auditing.RESUMED})


def _finding(flow: AuditedFlow, workflow: WorkflowInfo) -> Finding:
    if isinstance(flow, SilentFlow):
        return rules.unsupervised(flow.uid, flow.id, flow.state, workflow)
    return rules.unannounced(flow.uid, flow.id, flow.ended_at, flow.problem, workflow)


def _at_work(pairs: Sequence[tuple[AuditedFlow, WorkflowInfo]]) -> list[tuple[FindingKind, str]]:
    """Return the pending announcements with an open workflow, as kinds and subjects of findings."""
    return [
        (FindingKind.FLOW_UNANNOUNCED, flow.uid)
        for flow, workflow in pairs
        if isinstance(flow, UnannouncedFlow) and workflow.is_open
    ]


def _rest(page: Sequence[AuditedFlow]) -> str:
    return page[-1].uid if len(page) == FLOWS_IN_A_PAGE else MANAGERS
