"""Runs that are not over, against their workflows."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from temporalio import activity

from crawler_lifecycle.activities.auditing import Ledger, each_of, go_on, not_open, of_this_one
from crawler_lifecycle.activities.failing import failing_workflows
from crawler_lifecycle.contract.audits import AuditPage, AuditStep, Finding, FindingKind
from crawler_lifecycle.domain.audit.runs import (
    ENDED_WELL,
    OLD_COPY,
    claim_expired,
    cluster_has_all_jobs,
    overdue,
    unsupervised,
)
from crawler_lifecycle.domain.audit.subjects import AuditedRun, Patience, WorkflowInfo
from crawler_lifecycle.domain.looks import uids_of
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.ports import Cluster, Findings, Records, Supervisors, Tasks

RUNS_IN_A_PAGE = 1000


@dataclass(frozen=True)
class RunAudit:
    records: Records
    findings: Findings
    supervisors: Supervisors
    tasks: Tasks
    cluster: Cluster
    patience: Patience

    @activity.defn
    async def audit_runs(self, step: AuditStep) -> AuditPage:
        """Resumes those that nobody supervises; reports those whose supervisor or dispatcher does not do its part."""
        page, rest = await asyncio.to_thread(self.records.open_runs, int(step.after or 0), RUNS_IN_A_PAGE)
        ledger, by_id = Ledger(step.audit, self.findings), {run.run_id: run for run in page}
        lost, unsure = await self._unsupervised(page)
        await ledger.keep([(FindingKind.UNSUPERVISED, run.run_uid) for run in unsure])
        supervised = [run for run in page if run.run_id not in {each.run_id for each in lost}]
        failing = await failing_workflows(self.supervisors, supervised)
        stuck = await self._stuck(supervised)

        async def act(finding: Finding) -> Finding:
            if finding.kind is not FindingKind.UNSUPERVISED or finding.run_id is None:
                return finding
            return await go_on(self.supervisors, by_id[finding.run_id], finding)

        settled = await ledger.settle([*lost, *failing, *stuck], act, examined=len(page))
        return settled.model_copy(update={"rest": None if rest is None else str(rest)})

    async def _unsupervised(self, page: Sequence[AuditedRun]) -> tuple[list[Finding], list[AuditedRun]]:
        """With those whose workflows are not open, but were a moment ago: what was found of them is not mended."""
        late = {run.run_id for run in page if overdue(run, datetime.now(UTC), self.patience)}
        described = await self._with_their_runs(page, await not_open(self.supervisors, page, late))
        again = await asyncio.to_thread(self.records.audited_by_id, described) if described else {}
        now = datetime.now(UTC)
        found, unsure = list[Finding](), list[AuditedRun]()
        for run in (run for run in page if run.run_id in described):
            seen, row = described[run.run_id], again.get(run.run_id)
            if finding := unsupervised(run, row, seen, now, self.patience):
                found.append(finding)
            elif not seen.is_open and row is not None and not row.status.is_over:
                unsure.append(run)
        return await each_of(self._unless_told, found), unsure

    async def _with_their_runs(
        self, page: Sequence[AuditedRun], described: Mapping[int, WorkflowInfo]
    ) -> dict[int, WorkflowInfo]:
        """Whose run it was that ended well, of those that are not the ones on record."""
        supervisors = {run.run_id: (run.workflow_id, run.supervisor_run_id) for run in page}

        async def known(run_id: int) -> WorkflowInfo:
            seen, (workflow_id, execution) = described[run_id], supervisors[run_id]
            if seen.end not in ENDED_WELL or not seen.is_ours or seen.first_execution == execution:
                return seen
            try:
                return replace(seen, of_run=await self.supervisors.asked_for(workflow_id))
            except LifecycleError as error:
                return replace(seen, problem=of_this_one(error))

        return dict(zip(described, await each_of(known, described), strict=True))

    async def _unless_told(self, finding: Finding) -> Finding:
        """A run that ended in what the database has lost goes on where the cluster still shows how."""
        if finding.problem != OLD_COPY or not await asyncio.to_thread(self._is_told, finding):
            return finding
        return finding.model_copy(update={"problem": None})

    def _is_told(self, finding: Finding) -> bool:
        run_id = finding.run_id or 0
        numbers = [task for tasks in self.tasks.by_status(run_id).values() for task in tasks]
        rows = self.tasks.rows(run_id, numbers)
        watched = [(row.task, row.attempt) for row in rows if not row.status.is_over]
        return cluster_has_all_jobs(self.cluster.look(finding.run_uid or "", watched, uids=uids_of(rows)), rows)

    async def _stuck(self, supervised: Sequence[AuditedRun]) -> list[Finding]:
        now = datetime.now(UTC)
        late = [finding for run in supervised if (finding := overdue(run, now, self.patience))]
        ids = [run.run_id for run in supervised]
        claims = await asyncio.to_thread(self.records.expired_claims, ids, now - self.patience.stuck) if ids else {}
        expired = [
            claim_expired(run, claim.tasks, claim.since) for run in supervised if (claim := claims.get(run.run_id))
        ]
        return [*late, *expired]
