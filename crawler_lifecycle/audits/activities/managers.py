"""Audit of crawl managers, in the part `flows`: attempts, their runs, and reactions to ends."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from crawler_lifecycle.audits.activities import auditing
from crawler_lifecycle.audits.ports.findings import Findings
from crawler_lifecycle.audits.ports.manager_audits import DoubtfulAttempt, ManagerAudits
from crawler_lifecycle.audits.rules import flows as rules
from crawler_lifecycle.delivery.ports.outside import FlowSupervisors
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.flows.rules import ends as unstarted
from crawler_lifecycle.model.audits import AuditPage, AuditStep, Finding, FindingKind
from crawler_lifecycle.model.supervision import AuditPatience, WorkflowInfo
from crawler_lifecycle.temporal.together import gather_limited

ATTEMPTS_IN_A_PAGE = 500
MOST_UNKNOWN_RUNS = 500  # in an audit
MISSING = WorkflowInfo(is_open=False)
MENDED, STARTED, REFUSED = "its rows were mended", "its workflow was started again", "it was ended as refused"


@dataclass(frozen=True)
class ManagerAudit:
    managers: ManagerAudits
    findings: Findings
    supervisors: FlowSupervisors
    patience: AuditPatience

    async def page(self, step: AuditStep, after: str) -> AuditPage:
        """Compare a page with attempts and their runs. `after`: the last place on the page before."""
        before = datetime.now(UTC) - self.patience.stuck
        page = await asyncio.to_thread(self.managers.doubtful, before, after=after, limit=ATTEMPTS_IN_A_PAGE)
        unknown = [] if after else await asyncio.to_thread(self.managers.unknown_runs, before, MOST_UNKNOWN_RUNS)
        workflows = await gather_limited(self._describe, page)
        doubtful = {attempt.key: (attempt, workflow) for attempt, workflow in zip(page, workflows, strict=True)}
        disagreements = [_finding(attempt, workflow) for attempt, workflow in doubtful.values()]
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
        return settled.model_copy(update={"rest": _rest(page)})

    async def _describe(self, attempt: DoubtfulAttempt) -> WorkflowInfo:
        """Describe the workflow for an attempt without a run."""
        if attempt.run_id is not None:
            return MISSING
        try:
            return await self.supervisors.describe(attempt.key)
        except LifecycleError as error:
            return WorkflowInfo(is_open=False, problem=auditing.message_or_raise(error))

    async def _mend(self, kind: FindingKind, attempt: DoubtfulAttempt, workflow: WorkflowInfo) -> str | None:
        """Mend the attempt, and return the action."""
        place = attempt.flow_uid, attempt.member, attempt.attempt
        if kind is FindingKind.MANAGED_RUN_UNTOLD:
            return MENDED if await asyncio.to_thread(self.managers.tell, *place) else None
        if workflow.is_open:
            return None
        if unstarted.is_missing(workflow):
            await self.supervisors.start_crawl(attempt.key, attempt.request)
            return STARTED
        refusal = unstarted.refusal(workflow, await self.supervisors.failure(attempt.key))
        if refusal is None:
            return None
        return REFUSED if await asyncio.to_thread(self.managers.refuse, *place, refusal) else None


def _finding(attempt: DoubtfulAttempt, workflow: WorkflowInfo) -> Finding:
    name = f"item {attempt.number} of flow {attempt.flow_id} (attempt {attempt.attempt})"
    if attempt.run_id is None:
        return rules.run_missing(attempt.key, name, attempt.began_at, workflow)
    if not attempt.is_told or attempt.ended_at is None:
        return rules.run_untold(attempt.key, name, attempt.run_id, attempt.run_uid)
    return rules.end_unanswered(attempt.key, name, attempt.ended_at, is_failing=attempt.is_failing)


def _rest(page: Sequence[DoubtfulAttempt]) -> str | None:
    return page[-1].place if len(page) == ATTEMPTS_IN_A_PAGE else None
