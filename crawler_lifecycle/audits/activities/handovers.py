"""Audit part `handovers`: repeat the exports and closing notices still pending after a run's end."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from temporalio import activity

from crawler_lifecycle.audits.activities.auditing import AuditLedger, describe_unlisted, resume_workflow
from crawler_lifecycle.audits.ports import Acted, Findings
from crawler_lifecycle.audits.rules import handovers as rules
from crawler_lifecycle.delivery.ports import Supervisors
from crawler_lifecycle.model.audits import AuditPage, AuditStep, Finding, FindingKind
from crawler_lifecycle.model.naming import export_workflow_id
from crawler_lifecycle.model.supervision import (
    AuditedRun,
    AuditPatience,
    WorkflowInfo,
    foreign_workflow_problem,
    timestamp,
)
from crawler_lifecycle.runs.ports import EndDeliveries, Records

RUNS_IN_A_PAGE = 500  # runs per activity; the next page has the further runs
# problems: why the audit does not repeat a delivery
IN_VAIN = f"sent again {rules.MOST_NOTICES} times in vain: mend its receiver, then `crawlctl resume` or leave it"
TOO_OLD = "it is too old to be done again automatically: `crawlctl {}` does it"


@dataclass(frozen=True)
class HandoverAudit:
    records: Records
    findings: Findings
    supervisors: Supervisors
    patience: AuditPatience

    @activity.defn
    async def audit_handovers(self, step: AuditStep) -> AuditPage:
        """Repeat pending deliveries by resuming runs: their workflows export and notify under the same ids again."""
        since = datetime.now(UTC) - self.patience.replay
        after = int(step.after or 0)
        page, next_after = await asyncio.to_thread(self.records.owed_deliveries, after, RUNS_IN_A_PAGE, since)
        findings = await self._findings_of_page(page)
        runs = {item.run.run_id: item.run for item in page}
        subjects = [(finding.kind, finding.subject) for finding in findings]
        repetitions = await asyncio.to_thread(self.findings.acted, subjects)

        async def act(finding: Finding) -> Finding:
            run, repeated = runs[finding.run_id or 0], repetitions.get((finding.kind, finding.subject))
            problem = finding.problem or self._reason_not_to_repeat(run, finding, repeated)
            # with a problem, the finding is only reported, and the run is not resumed
            return await resume_workflow(self.supervisors, run, finding.model_copy(update={"problem": problem}))

        ledger = AuditLedger(step.audit, self.findings)
        await ledger.keep_open(_subjects_to_keep_open(page, findings))
        settled = await ledger.settle(findings, act, examined=len(page))
        return settled.model_copy(update={"rest": None if next_after is None else str(next_after)})

    async def _findings_of_page(self, page: Sequence[EndDeliveries]) -> list[Finding]:
        """Return the findings for runs without a workflow at work.

        An end that is too old to deliver is only reported, so Temporal is not asked about the run's workflow.
        """
        now = datetime.now(UTC)
        too_old = {item.run.run_id for item in page if rules.is_too_old(item.run, now, self.patience)}
        idle_runs = await self._idle_runs([item.run for item in page if item.run.run_id not in too_old])
        owing = [item for item in page if item.run.run_id in too_old or item.run.run_id in idle_runs]
        rows = await asyncio.to_thread(self.records.audited_by_id, [item.run.run_id for item in owing]) if owing else {}
        findings = list[Finding]()
        for item in owing:
            run = rows.get(item.run.run_id)
            if run is None or not run.status.is_over or run.end_number != item.run.end_number:
                continue  # the run was reopened or deleted since the page was read
            export = rules.owed_export(run, item.export_failed_at, now, self.patience)
            notice = rules.owed_notice(run, item.notice_keys, now, self.patience, is_untried=item.is_untried)
            problem = {"problem": idle_runs.get(run.run_id)}
            findings += [finding.model_copy(update=problem) for finding in (export, notice) if finding]
        return findings

    async def _idle_runs(self, runs: Sequence[AuditedRun]) -> dict[int, str | None]:
        """Return, by RunID, the runs without a workflow at work, with the problem if a foreign workflow has the id.

        Two workflows may be at work: the run's own, and an export workflow started by a person.
        """
        exporting = await self.supervisors.open_among([export_workflow_id(run.run_uid) for run in runs])
        others = [run for run in runs if export_workflow_id(run.run_uid) not in exporting]
        # a run with a workflow in Temporal's list of open workflows is not idle, and not described
        workflows = await describe_unlisted(self.supervisors, others)
        now, ids = datetime.now(UTC), {run.run_id: run.workflow_id for run in runs}
        return {
            run_id: foreign_workflow_problem(ids[run_id], workflow)
            for run_id, workflow in workflows.items()
            if self._is_idle(workflow, now)
        }

    def _is_idle(self, workflow: WorkflowInfo, now: datetime) -> bool:
        """Return whether the workflow does not work on its run: it is missing, closed for some time, or foreign.

        A workflow closed just now may have delivered, and a workflow that cannot be described may be open.
        """
        if (workflow.is_open and workflow.is_ours) or workflow.problem:
            return False
        return workflow.ended_at is None or now - workflow.ended_at >= self.patience.workflow

    def _reason_not_to_repeat(self, run: AuditedRun, finding: Finding, repeated: Acted | None) -> str | None:
        """Return why the audit does not repeat the delivery now; None: the audit repeats the delivery.

        `repeated`: the repetitions by earlier audits; None or without a time: no audit has repeated the delivery yet.
        """
        now = datetime.now(UTC)
        if rules.is_too_old(run, now, self.patience):
            return TOO_OLD.format("resume" if finding.kind is FindingKind.UNDELIVERED else "export")
        if repeated is None or repeated.at is None:
            return None
        if finding.kind is FindingKind.EXPORT_PENDING:  # the export did not fail: its workflow was ended in the middle
            return None
        if finding.kind is FindingKind.UNDELIVERED:
            return IN_VAIN if repeated.acts >= rules.MOST_NOTICES else None
        due = rules.next_replay(repeated.acts, repeated.at, self.patience)
        if now >= due:
            return None
        times = "once" if repeated.acts == 1 else f"{repeated.acts} times"
        return f"done again {times} in vain, and again at {timestamp(due)}; `crawlctl export` does it now"


def _subjects_to_keep_open(page: Sequence[EndDeliveries], findings: Sequence[Finding]) -> list[tuple[FindingKind, str]]:
    """Return kind and subject of the pending deliveries without a finding now: a workflow may be making these
    deliveries.

    An earlier audit's finding about such a delivery must not be closed, since the number of repetitions would be lost.
    The two kinds of export findings are about the same delivery.
    """
    reported = {(finding.kind, finding.subject) for finding in findings}
    unreported: list[tuple[FindingKind, str]] = []
    for item in page:
        subject, kinds = item.run.run_uid, rules.owed_kinds(item.run, item.notice_keys, is_untried=item.is_untried)
        if any((kind, subject) in reported for kind in rules.EXPORTS):
            kinds -= rules.EXPORTS
        unreported += [(kind, subject) for kind in sorted(kinds) if (kind, subject) not in reported]
    return unreported
