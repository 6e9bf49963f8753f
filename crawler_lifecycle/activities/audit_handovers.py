"""Audit part `handovers`: repeat missing exports and closing notices after a run's end."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from temporalio import activity

from crawler_lifecycle.activities.auditing import Ledger, describe_unlisted, resume_workflow
from crawler_lifecycle.contract.audits import AuditPage, AuditStep, Finding, FindingKind
from crawler_lifecycle.domain.audit import handovers as rules
from crawler_lifecycle.domain.audit.runs import foreign_workflow_problem
from crawler_lifecycle.domain.audit.subjects import AuditedRun, AuditPatience, WorkflowInfo, timestamp
from crawler_lifecycle.domain.naming import export_workflow_id
from crawler_lifecycle.ports import Acted, EndDeliveries, Findings, Records, Supervisors

RUNS_IN_A_PAGE = 500
IN_VAIN = f"sent again {rules.MOST_NOTICES} times in vain: mend its receiver, then `crawlctl resume` or leave it"
TOO_OLD = "it is too old to be done again by itself: `crawlctl {}` does it"


@dataclass(frozen=True)
class HandoverAudit:
    records: Records
    findings: Findings
    supervisors: Supervisors
    patience: AuditPatience

    @activity.defn
    async def audit_handovers(self, step: AuditStep) -> AuditPage:
        """Resume the workflows of runs after their ends, to export and to send closing notices under the same ids."""
        since = datetime.now(UTC) - self.patience.replay
        page, rest = await asyncio.to_thread(self.records.owed_deliveries, int(step.after or 0), RUNS_IN_A_PAGE, since)
        findings = await self._findings(page)
        by_id = {item.run.run_id: item.run for item in page}
        subjects = [(finding.kind, finding.subject) for finding in findings]
        earlier = await asyncio.to_thread(self.findings.acted, subjects)

        async def act(finding: Finding) -> Finding:
            run = by_id[finding.run_id or 0]
            problem = finding.problem or self._problem(run, finding, earlier.get((finding.kind, finding.subject)))
            return await resume_workflow(self.supervisors, run, finding.model_copy(update={"problem": problem}))

        ledger = Ledger(step.audit, self.findings)
        await ledger.keep_open(_subjects_to_keep_open(page, findings))
        settled = await ledger.settle(findings, act, examined=len(page))
        return settled.model_copy(update={"rest": None if rest is None else str(rest)})

    async def _findings(self, page: Sequence[EndDeliveries]) -> list[Finding]:
        """Return the findings for runs without a workflow at work.

        Ends too old to deliver are only reported, so their workflows are not described.
        """
        now = datetime.now(UTC)
        too_old = {item.run.run_id for item in page if rules.is_too_old(item.run, now, self.patience)}
        idle = await self._idle([item.run for item in page if item.run.run_id not in too_old])
        due = [item for item in page if item.run.run_id in too_old or item.run.run_id in idle]
        rows = await asyncio.to_thread(self.records.audited_by_id, [item.run.run_id for item in due]) if due else {}
        findings = list[Finding]()
        for item in due:
            run = rows.get(item.run.run_id)
            if run is None or not run.status.is_over or run.end_number != item.run.end_number:
                continue  # reopened since the page was read
            export = rules.owed_export(run, item.export_failed_at, now, self.patience)
            notice = rules.owed_notice(run, item.notice_keys, now, self.patience, is_untried=item.is_untried)
            problem = {"problem": idle.get(run.run_id)}
            findings += [finding.model_copy(update=problem) for finding in (export, notice) if finding]
        return findings

    async def _idle(self, runs: Sequence[AuditedRun]) -> dict[int, str | None]:
        """Return, by RunID, the runs without a workflow at work, and the problem if a foreign workflow has the id.

        Two workflows may be at work: the run's own, and an export workflow started by a person.
        """
        exporting = await self.supervisors.open_among([export_workflow_id(run.run_uid) for run in runs])
        others = [run for run in runs if export_workflow_id(run.run_uid) not in exporting]
        closed = await describe_unlisted(self.supervisors, others)
        now, ids = datetime.now(UTC), {run.run_id: run.workflow_id for run in runs}
        return {
            run_id: foreign_workflow_problem(ids[run_id], workflow)
            for run_id, workflow in closed.items()
            if self._is_idle(workflow, now)
        }

    def _is_idle(self, workflow: WorkflowInfo, now: datetime) -> bool:
        """Return whether the run's workflow closed some time ago: a workflow closed just now may have delivered.

        An open workflow with a foreign type does not work on the run either.
        """
        if (workflow.is_open and workflow.is_ours) or workflow.problem:
            return False
        return workflow.ended_at is None or now - workflow.ended_at >= self.patience.workflow

    def _problem(self, run: AuditedRun, finding: Finding, earlier: Acted | None) -> str | None:
        """Return why the audit does not repeat the delivery now, or None."""
        now = datetime.now(UTC)
        if rules.is_too_old(run, now, self.patience):
            return TOO_OLD.format("resume" if finding.kind is FindingKind.UNDELIVERED else "export")
        if earlier is None or earlier.at is None or finding.kind is FindingKind.EXPORT_PENDING:
            return None  # a pending export has not failed: the workflow was ended in the middle
        if finding.kind is FindingKind.UNDELIVERED:
            return IN_VAIN if earlier.acts >= rules.MOST_NOTICES else None
        due = rules.next_replay(earlier.acts, earlier.at, self.patience)
        if now >= due:
            return None
        times = "once" if earlier.acts == 1 else f"{earlier.acts} times"
        return f"done again {times} in vain, and again at {timestamp(due)}; `crawlctl export` does it now"


def _subjects_to_keep_open(page: Sequence[EndDeliveries], findings: Sequence[Finding]) -> list[tuple[FindingKind, str]]:
    """Return the open findings of deliveries that a workflow may be making now.

    If such a finding were closed, the number of earlier tries would be lost. Both kinds of export findings count as the
    same delivery.
    """
    present = {(finding.kind, finding.subject) for finding in findings}
    kept: list[tuple[FindingKind, str]] = []
    for item in page:
        subject, kinds = item.run.run_uid, rules.owed_kinds(item.run, item.notice_keys, is_untried=item.is_untried)
        if any((kind, subject) in present for kind in rules.EXPORTS):
            kinds -= rules.EXPORTS
        kept += [(kind, subject) for kind in sorted(kinds) if (kind, subject) not in present]
    return kept
