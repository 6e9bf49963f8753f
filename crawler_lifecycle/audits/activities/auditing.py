"""Activities that begin and finish an audit, and steps that all parts of the audit share.

The parts are `audit_runs`, `audit_jobs`, `audit_handovers` and `audit_flows`, in modules of their own. A part judges
its subjects in pages. For every page the part records the findings, acts on the findings, and records the actions. An
audit without `repair` neither records nor acts. Every page returns its first findings to the workflow of the audit.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from temporalio import activity

from crawler_lifecycle.audits.ports import Findings
from crawler_lifecycle.audits.rules.runs import failing_workflow, is_failing
from crawler_lifecycle.delivery.ports import Supervisors
from crawler_lifecycle.errors import LifecycleError, PermanentError
from crawler_lifecycle.model.audits import AuditPage, AuditRef, AuditReport, AuditRequest, Finding, FindingKind
from crawler_lifecycle.model.run_plan import Counted
from crawler_lifecycle.model.supervision import AuditedRun, WorkflowInfo
from crawler_lifecycle.temporal.together import REQUESTS_AT_ONCE, gather_limited

# A temporary error about a single workflow fails the first two tries of a page, because Temporal may be down. In the
# third try the error becomes a problem of the single run, because Temporal answers the page's other requests.
PAGE_TRIES = 3
FINDINGS_RETURNED = 100  # per page, since payloads are limited; the database has all findings
RESUMED = "its workflow was started again"  # action of a finding
Act = Callable[[Finding], Awaitable[Finding]]  # repairs, and returns the finding with the action or the problem


@dataclass(frozen=True)
class AuditActivities:
    findings: Findings
    kept_for: timedelta  # older audits and closed findings are deleted
    may_remove_unknown_jobs: bool = False  # by the setting

    @activity.defn(no_thread_cancel_exception=True)
    def begin_audit(self, step: AuditRequest) -> AuditRef:
        """Begin the audit. Its uid is Temporal's id of the execution, so another try begins no second audit."""
        audit = AuditRef(
            audit_uid=activity.info().workflow_run_id or "",
            began_at=datetime.now(UTC),
            repair=step.repair,
            remove_unknown_jobs=step.remove_unknown_jobs and self.may_remove_unknown_jobs,
            requested_by=step.requested_by,
        )
        if audit.repair:
            self.findings.begin(audit)
        return audit

    @activity.defn(no_thread_cancel_exception=True)
    def finish_audit(self, report: AuditReport) -> Counted:
        """Write the audit's end, and close the open findings that the audit did not see again.

        Only complete parts close findings: an incomplete part did not examine all subjects.
        """
        if not report.audit.repair:
            return Counted(count=0)
        kinds = [kind for part, result in report.parts.items() if result.problem is None for kind in part.kinds]
        closed = self.findings.close(report.audit, kinds) if kinds else 0
        self.findings.finish(report, self.kept_for)
        return Counted(count=closed)


@dataclass(frozen=True)
class AuditLedger:
    """Records the findings of a page, acts on the findings, and counts the findings."""

    audit: AuditRef
    findings: Findings

    async def settle(self, findings: Sequence[Finding], act: Act, *, examined: int, unknown: int = 0) -> AuditPage:
        """Record the findings and call `act` for every finding, unless the audit is without repair. Return the page.

        `examined`: number of examined subjects. `unknown`: number of runs without a complete look.
        """
        counts = Counter(finding.kind for finding in findings)
        if self.audit.repair and findings:
            await asyncio.to_thread(self.findings.report, self.audit, findings)
            findings = [finding async for finding in self._act_on(findings, act)]
            _add_to_metrics(counts)
        return AuditPage(
            examined=examined,
            found=dict(counts),
            acted=sum(finding.action is not None for finding in findings),
            unknown=unknown,
            findings=[finding.model_copy(update={"evidence": None}) for finding in findings[:FINDINGS_RETURNED]],
        )

    async def _act_on(self, findings: Sequence[Finding], act: Act) -> AsyncIterator[Finding]:
        """Act on a few findings at a time and record their actions, so that few actions are lost if the worker dies."""
        for start in range(0, len(findings), REQUESTS_AT_ONCE):
            results = await gather_limited(act, findings[start : start + REQUESTS_AT_ONCE])
            changed = [finding for finding in results if finding.action or finding.problem]
            if changed:
                await asyncio.to_thread(self.findings.report, self.audit, changed)
            for finding in results:
                yield finding

    async def keep_open(self, subjects: Collection[tuple[FindingKind, str]]) -> None:
        """Keep earlier audits' findings about these subjects open, because the page could not judge the subjects."""
        if self.audit.repair and subjects:
            await asyncio.to_thread(self.findings.keep_open, self.audit, subjects)


def _add_to_metrics(counts: Counter[FindingKind]) -> None:
    for kind, count in counts.items():
        meter = activity.metric_meter().with_additional_attributes({"kind": kind})
        meter.create_counter("crawler_audit_findings", "what audits found, each time they found it").add(count)


async def describe_unlisted(
    supervisors: Supervisors, runs: Sequence[AuditedRun], overdue: Collection[int] = ()
) -> dict[int, WorkflowInfo]:
    """Describe, by RunID, the workflows that Temporal does not list as open, and the workflows of overdue runs.

    `overdue`: RunIDs whose next look is long past its time; its workflow may be closed. Temporal's list
    lags, and may show a closed workflow as open.
    """
    listed = await supervisors.open_among([run.workflow_id for run in runs])
    doubtful = [run for run in runs if run.workflow_id not in listed or run.run_id in overdue]
    workflows = await gather_limited(partial(_describe, supervisors), doubtful)
    return {run.run_id: workflow for run, workflow in zip(doubtful, workflows, strict=True)}


async def _describe(supervisors: Supervisors, run: AuditedRun) -> WorkflowInfo:
    try:
        return await supervisors.describe(run.workflow_id)
    except LifecycleError as error:
        return WorkflowInfo(is_open=False, problem=message_or_raise(error))


def message_or_raise(error: LifecycleError) -> str:
    """Return the message if the error concerns a single run: the audit then continues with the next run.

    Raise a temporary error again in the page's first tries (see PAGE_TRIES), because Temporal may be down. The page is
    then tried again.
    """
    if isinstance(error, PermanentError) or activity.info().attempt >= PAGE_TRIES:
        return error.message
    raise error


async def resume_workflow(supervisors: Supervisors, run: AuditedRun, finding: Finding) -> Finding:
    """Start the run's workflow under the registered id, or join the workflow if it is open by now.

    Return the finding with the action or the problem. A finding with an earlier problem permits no start.
    """
    if finding.problem:
        return finding
    try:
        await supervisors.go_on(run)
    except LifecycleError as error:
        return finding.model_copy(update={"problem": message_or_raise(error)})
    return finding.model_copy(update={"action": RESUMED})


async def failing_workflows(supervisors: Supervisors, runs: Iterable[AuditedRun]) -> list[Finding]:
    """Return a finding for every workflow whose workflow task fails again and again.

    Every workflow is described, because Temporal's lists do not show a workflow task's attempts.
    """
    findings = await gather_limited(partial(_finding_if_failing, supervisors), runs)
    return [finding for finding in findings if finding is not None]


async def _finding_if_failing(supervisors: Supervisors, run: AuditedRun) -> Finding | None:
    """Return the finding; None if the run's workflow does not fail, or if Temporal refuses to describe the workflow.

    The audit reports a run without a description of its workflow as unsupervised. A temporary error is raised.
    """
    try:
        workflow = await supervisors.describe(run.workflow_id)
        if not is_failing(workflow):
            return None
        failure = await supervisors.task_failure(run.workflow_id)
    except PermanentError:
        return None
    return failing_workflow(run, workflow, failure) if failure else None  # no failure: the workflow has gone on since
