"""Audit part `runs`: compare open runs with their workflows, and resume unsupervised runs."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from temporalio import activity

from crawler_lifecycle.audits.activities import auditing
from crawler_lifecycle.audits.ports import Findings
from crawler_lifecycle.audits.rules import runs as rules
from crawler_lifecycle.clusters.ports import Cluster
from crawler_lifecycle.delivery.ports import Supervisors
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.limits.ports import Limits
from crawler_lifecycle.model.audits import AuditPage, AuditStep, Finding, FindingKind
from crawler_lifecycle.model.looks import uids_of
from crawler_lifecycle.model.supervision import AuditedRun, AuditPatience, WorkflowInfo
from crawler_lifecycle.runs.ports import Records, Tasks
from crawler_lifecycle.temporal.together import gather_limited

RUNS_IN_A_PAGE = 1000  # runs per activity; the next page has the further runs
CORRECTED = "the sums were corrected"  # action of a finding


@dataclass(frozen=True)
class RunAudit:
    records: Records
    findings: Findings
    limits: Limits
    supervisors: Supervisors
    tasks: Tasks
    cluster: Cluster
    patience: AuditPatience

    @activity.defn
    async def audit_runs(self, step: AuditStep) -> AuditPage:
        """Resume unsupervised runs; report runs with a failing workflow, an overdue look or an expired claim.

        The first page also compares the sums for limits with the rows, and corrects the sums.
        """
        page, continue_after = await asyncio.to_thread(self.records.open_runs, int(step.after or 0), RUNS_IN_A_PAGE)
        ledger, runs = auditing.AuditLedger(step.audit, self.findings), {run.run_id: run for run in page}
        unsupervised, just_closed = await self._unsupervised(page)
        await ledger.keep_open([(FindingKind.UNSUPERVISED, run.run_uid) for run in just_closed])
        unsupervised_ids = {finding.run_id for finding in unsupervised}
        supervised_runs = [run for run in page if run.run_id not in unsupervised_ids]
        failing = await auditing.failing_workflows(self.supervisors, supervised_runs)
        stuck = await self._stuck(supervised_runs)
        miscounted = rules.miscounted(await asyncio.to_thread(self.limits.miscounted)) if step.after is None else []

        async def act(finding: Finding) -> Finding:
            if finding.kind is FindingKind.MISCOUNTED:
                return await self._correct_sums(finding)
            if finding.kind is not FindingKind.UNSUPERVISED or finding.run_id is None:
                return finding
            return await auditing.resume_workflow(self.supervisors, runs[finding.run_id], finding)

        settled = await ledger.settle([*unsupervised, *failing, *stuck, *miscounted], act, examined=len(page))
        return settled.model_copy(update={"rest": None if continue_after is None else str(continue_after)})

    async def _unsupervised(self, page: Sequence[AuditedRun]) -> tuple[list[Finding], list[AuditedRun]]:
        """Return the findings for runs without a supervisor, and the runs whose workflow closed a moment ago.

        The next audit judges the runs of the second list, because another execution may just be taking them over. Until
        then, an earlier audit's findings about these runs stay open.
        """
        # Temporal's list of open workflows lags, so runs with an overdue look are described even if listed
        overdue = {run.run_id for run in page if rules.look_overdue(run, datetime.now(UTC), self.patience)}
        workflows = await auditing.describe_unlisted(self.supervisors, page, overdue)
        workflows = await self._with_requested_run_ids(page, workflows)
        rows = await asyncio.to_thread(self.records.audited_by_id, workflows) if workflows else {}
        now = datetime.now(UTC)
        findings, just_closed = list[Finding](), list[AuditedRun]()
        for run in page:
            if run.run_id not in workflows:
                continue
            workflow, row = workflows[run.run_id], rows.get(run.run_id)
            finding = rules.unsupervised(run, row, workflow, now, self.patience)
            if finding:
                findings.append(finding)
            elif not workflow.is_open and row is not None and not row.status.is_over:
                just_closed.append(run)
        return await gather_limited(self._allow_if_jobs_remain, findings), just_closed

    async def _with_requested_run_ids(
        self, page: Sequence[AuditedRun], workflows: Mapping[int, WorkflowInfo]
    ) -> dict[int, WorkflowInfo]:
        """Add the requested RunID to our workflows that ended well and are not the recorded supervisor.

        The RunID shows whether such a workflow completed our run. If so, the run's row comes from an old copy of the
        database, because the row shows the run as open.
        """
        runs = {run.run_id: run for run in page}

        async def with_run_id(run_id: int) -> WorkflowInfo:
            run, workflow = runs[run_id], workflows[run_id]
            is_on_record = workflow.first_execution == run.supervisor_run_id
            if workflow.end not in rules.ENDED_WELL or not workflow.is_ours or is_on_record:
                return workflow
            try:
                return replace(workflow, requested_run_id=await self.supervisors.requested_run_id(run.workflow_id))
            except LifecycleError as error:
                return replace(workflow, problem=auditing.message_or_raise(error))

        return dict(zip(workflows, await gather_limited(with_run_id, workflows), strict=True))

    async def _allow_if_jobs_remain(self, finding: Finding) -> Finding:
        """Drop the doubt about an old copy of the database from the finding, if the cluster has all jobs of the run.

        Without a `problem` in the finding, the audit resumes the run. The resume is safe then: looks find how the jobs
        ended, so no task is executed twice.
        """
        if rules.is_held_by_doubt(finding) and await asyncio.to_thread(self._has_all_jobs, finding):
            return finding.model_copy(update={"problem": None})
        return finding

    def _has_all_jobs(self, finding: Finding) -> bool:
        run_id = finding.run_id or 0
        numbers = [task for tasks in self.tasks.by_status(run_id).values() for task in tasks]
        rows = self.tasks.rows(run_id, numbers)
        watched = [(row.task, row.attempt) for row in rows if not row.status.is_over]
        return rules.cluster_has_all_jobs(self.cluster.look(finding.run_uid or "", watched, uids=uids_of(rows)), rows)

    async def _correct_sums(self, finding: Finding) -> Finding:
        try:
            await asyncio.to_thread(self.limits.correct_sums)
        except LifecycleError as error:
            return finding.model_copy(update={"problem": auditing.message_or_raise(error)})
        return finding.model_copy(update={"action": CORRECTED})

    async def _stuck(self, runs: Sequence[AuditedRun]) -> list[Finding]:
        """Return the findings for overdue looks and expired claims."""
        if not runs:
            return []
        now = datetime.now(UTC)
        ids = [run.run_id for run in runs]
        claims = await asyncio.to_thread(self.records.expired_claims, ids, now - self.patience.stuck)
        overdue_looks = [rules.look_overdue(run, now, self.patience) for run in runs]
        expired_claims = [
            rules.claim_expired(run, claims[run.run_id].tasks, claims[run.run_id].since)
            for run in runs
            if run.run_id in claims
        ]
        return [finding for finding in (*overdue_looks, *expired_claims) if finding]
