"""Runs that are over, and what was to be told and archived of them."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from temporalio import activity

from crawler_lifecycle.activities.auditing import Ledger, go_on, not_open
from crawler_lifecycle.contract.audits import AuditPage, AuditStep, Finding, FindingKind
from crawler_lifecycle.domain.audit.findings import timestamp
from crawler_lifecycle.domain.audit.handovers import (
    EXPORTS,
    MOST_NOTICES,
    handover,
    is_too_old,
    next_replay,
    owed,
    undelivered,
)
from crawler_lifecycle.domain.audit.runs import taken
from crawler_lifecycle.domain.audit.subjects import AuditedRun, Patience, WorkflowInfo
from crawler_lifecycle.domain.naming import export_workflow_id
from crawler_lifecycle.ports import Acted, Findings, Handover, Records, Supervisors

RUNS_IN_A_PAGE = 500
IN_VAIN = f"sent again {MOST_NOTICES} times in vain: mend its receiver, then `crawlctl resume` or leave it"
TOO_OLD = "it is too old to be done again by itself: `crawlctl {}` does it"


@dataclass(frozen=True)
class HandoverAudit:
    records: Records
    findings: Findings
    supervisors: Supervisors
    patience: Patience

    @activity.defn
    async def audit_handovers(self, step: AuditStep) -> AuditPage:
        """Has the workflows of runs that are over export them, and send their closing notices, under the same ids."""
        since = datetime.now(UTC) - self.patience.replay
        page, rest = await asyncio.to_thread(self.records.handovers, int(step.after or 0), RUNS_IN_A_PAGE, since)
        found = await self._found(page)
        by_id = {each.run.run_id: each.run for each in page}
        known = await asyncio.to_thread(self.findings.acted, [(each.kind, each.subject) for each in found])

        async def act(finding: Finding) -> Finding:
            run = by_id[finding.run_id or 0]
            done = known.get((finding.kind, finding.subject))
            problem = finding.problem or self._in_the_way(run, finding, done)
            return await go_on(self.supervisors, run, finding.model_copy(update={"problem": problem}))

        ledger = Ledger(step.audit, self.findings)
        await ledger.keep(_kept(page, found))
        settled = await ledger.settle(found, act, examined=len(page))
        return settled.model_copy(update={"rest": None if rest is None else str(rest)})

    async def _found(self, page: Sequence[Handover]) -> list[Finding]:
        """An end that is too old is only told, whoever is at it: that is not asked for."""
        now = datetime.now(UTC)
        old = {each.run.run_id for each in page if is_too_old(each.run, now, self.patience)}
        idle = await self._idle([each.run for each in page if each.run.run_id not in old])
        left = [each for each in page if each.run.run_id in old | idle.keys()]
        again = await asyncio.to_thread(self.records.audited_by_id, [each.run.run_id for each in left]) if left else {}
        return [
            finding.model_copy(update={"problem": idle.get(each.run.run_id)})
            for each in left
            for finding in self._of(each, again.get(each.run.run_id), now)
            if finding
        ]

    async def _idle(self, runs: Sequence[AuditedRun]) -> dict[int, str | None]:
        """Those that no workflow is at: neither their own, nor one that a person started to export them again. With
        what is in the way of their own."""
        exporting = await self.supervisors.open_among([export_workflow_id(run.run_uid) for run in runs])
        closed = await not_open(
            self.supervisors, [run for run in runs if export_workflow_id(run.run_uid) not in exporting]
        )
        now, ids = datetime.now(UTC), {run.run_id: run.workflow_id for run in runs}
        return {
            run_id: taken(ids[run_id], workflow) for run_id, workflow in closed.items() if self._is_left(workflow, now)
        }

    def _is_left(self, workflow: WorkflowInfo, now: datetime) -> bool:
        """An open workflow is still at it, and one that has just ended may have done it since we looked."""
        if (workflow.is_open and workflow.is_ours) or workflow.problem:
            return False
        return workflow.ended_at is None or now - workflow.ended_at >= self.patience.workflow

    def _of(self, before: Handover, run: AuditedRun | None, now: datetime) -> Iterator[Finding | None]:
        if run is not None and run.status.is_over and run.end_number == before.run.end_number:
            yield handover(run, before.failed_at, now, self.patience)
            yield undelivered(run, before.logged, now, self.patience, silent=before.silent)

    def _in_the_way(self, run: AuditedRun, finding: Finding, done: Acted | None) -> str | None:
        now = datetime.now(UTC)
        if is_too_old(run, now, self.patience):
            return TOO_OLD.format("resume" if finding.kind is FindingKind.UNDELIVERED else "export")
        if done is None or done.at is None or finding.kind is FindingKind.EXPORT_PENDING:
            return None  # nobody has failed at an export that is pending: its workflow was ended in its midst
        if finding.kind is FindingKind.UNDELIVERED:
            return IN_VAIN if done.acts >= MOST_NOTICES else None
        due = next_replay(done.acts, done.at, self.patience)
        return None if now >= due else _wait(done.acts, due)


def _wait(acts: int, due: datetime) -> str:
    times = "once" if acts == 1 else f"{acts} times"
    return f"done again {times} in vain, and again at {timestamp(due)}; `crawlctl export` does it now"


def _kept(page: Sequence[Handover], found: Sequence[Finding]) -> list[tuple[FindingKind, str]]:
    """What is still to be done but was not found, because somebody is at it, or was a moment ago. How often it was
    tried is to be known afterwards. The two of the export are one story."""
    now = {(each.kind, each.subject) for each in found}
    kept: list[tuple[FindingKind, str]] = []
    for each in page:
        subject, kinds = each.run.run_uid, owed(each.run, each.logged, silent=each.silent)
        if any((kind, subject) in now for kind in EXPORTS):
            kinds -= EXPORTS
        kept += [(kind, subject) for kind in sorted(kinds) if (kind, subject) not in now]
    return kept
