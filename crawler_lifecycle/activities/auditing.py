"""Activities that begin and finish an audit, and steps that all parts of the audit share.

The parts have modules of their own (`audit_runs` and so on). A part records its findings, acts on them, and records the
actions. An audit without `repair` records nothing and does not act. Every part returns its first findings to the
caller.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar

from temporalio import activity

from crawler_lifecycle.contract.audits import AuditPage, AuditRef, AuditReport, AuditRequest, Finding, FindingKind
from crawler_lifecycle.contract.requests import RunRequest
from crawler_lifecycle.contract.steps.run import Counted
from crawler_lifecycle.domain.audit.runs import failing_workflow, is_failing
from crawler_lifecycle.domain.audit.subjects import AuditedRun, WorkflowInfo
from crawler_lifecycle.errors import LifecycleError, PermanentError
from crawler_lifecycle.ports import Findings, Supervisors

AT_ONCE = 16  # requests to Temporal
TRIES = 3  # for a page: an error that persists while Temporal's list answers concerns a single workflow
FINDINGS_RETURNED = 100
RESUMED = "its workflow was started again"
T = TypeVar("T")
R = TypeVar("R")
Act = Callable[[Finding], Awaitable[Finding]]


@dataclass(frozen=True)
class Ledger:
    """The findings of a page: recorded, acted on, counted."""

    audit: AuditRef
    findings: Findings

    async def settle(self, findings: Sequence[Finding], act: Act, *, examined: int, unknown: int = 0) -> AuditPage:
        """Record the findings and call `act` for every finding. `unknown`: runs that the audit could not look at."""
        counts = Counter(finding.kind for finding in findings)
        if self.audit.repair and findings:
            await asyncio.to_thread(self.findings.report, self.audit, findings)
            findings = [finding async for finding in self._act_on(findings, act)]
            _count(counts)
        return AuditPage(
            examined=examined,
            found=dict(counts),
            acted=sum(finding.action is not None for finding in findings),
            unknown=unknown,
            findings=[finding.model_copy(update={"evidence": None}) for finding in findings[:FINDINGS_RETURNED]],
        )

    async def _act_on(self, findings: Sequence[Finding], act: Act) -> AsyncIterator[Finding]:
        """Act on a few findings at a time and record the actions, so that a dying worker forgets few of them."""
        for start in range(0, len(findings), AT_ONCE):
            settled = await gather_limited(act, findings[start : start + AT_ONCE])
            changed = [finding for finding in settled if finding.action or finding.problem]
            if changed:
                await asyncio.to_thread(self.findings.report, self.audit, changed)
            for finding in settled:
                yield finding

    async def keep_open(self, subjects: Collection[tuple[FindingKind, str]]) -> None:
        """Keep findings open that the page could not judge."""
        if self.audit.repair and subjects:
            await asyncio.to_thread(self.findings.keep_open, self.audit, subjects)


async def gather_limited(request: Callable[[T], Awaitable[R]], items: Iterable[T]) -> list[R]:
    """Return the answers in the items' order, few requests at a time. The first error cancels the rest."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def limited(item: T) -> R:
        async with slots:
            return await request(item)

    tasks = [asyncio.create_task(limited(item)) for item in items]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


async def describe_unlisted(
    supervisors: Supervisors, runs: Sequence[AuditedRun], late: Collection[int] = ()
) -> dict[int, WorkflowInfo]:
    """Describe, by RunID, the workflows not listed as open, and the late runs' workflows.

    `late`: RunIDs with an overdue look. Temporal's list lags behind, and may show a closed workflow as open.
    """
    listed = await supervisors.open_among([run.workflow_id for run in runs])
    doubtful = [run for run in runs if run.workflow_id not in listed or run.run_id in late]
    workflows = await gather_limited(partial(_describe, supervisors), doubtful)
    return {run.run_id: workflow for run, workflow in zip(doubtful, workflows, strict=True)}


async def _describe(supervisors: Supervisors, run: AuditedRun) -> WorkflowInfo:
    try:
        return await supervisors.describe(run.workflow_id)
    except LifecycleError as error:
        return WorkflowInfo(is_open=False, problem=message_or_raise(error))


def message_or_raise(error: LifecycleError) -> str:
    """Return the message if the error concerns a single run: the audit goes on with the next run.

    A possible outage is raised, and Temporal tries the page again.
    """
    if not isinstance(error, PermanentError) and activity.info().attempt < TRIES:
        raise error
    return error.message


async def resume_workflow(supervisors: Supervisors, run: AuditedRun, finding: Finding) -> Finding:
    """Start the run's workflow under the registered id, or join the workflow if it is open by now."""
    if finding.problem:
        return finding
    try:
        await supervisors.go_on(run.workflow_id, RunRequest(crawler=run.crawler, run_id=run.run_id))
    except LifecycleError as error:
        return finding.model_copy(update={"problem": message_or_raise(error)})
    return finding.model_copy(update={"action": RESUMED})


def _count(counts: Counter[FindingKind]) -> None:
    for kind, count in counts.items():
        meter = activity.metric_meter().with_additional_attributes({"kind": kind})
        meter.create_counter("crawler_audit_findings", "what audits found, each time they found it").add(count)


async def failing_workflows(supervisors: Supervisors, runs: Iterable[AuditedRun]) -> list[Finding]:
    """Return a finding for every workflow with a workflow task failing again and again.

    Every workflow is described, because Temporal's lists do not show a workflow task's attempts.
    """
    findings = await gather_limited(partial(_finding, supervisors), runs)
    return [finding for finding in findings if finding is not None]


async def _finding(supervisors: Supervisors, run: AuditedRun) -> Finding | None:
    try:
        workflow = await supervisors.describe(run.workflow_id)
        if not is_failing(workflow):
            return None
        failure = await supervisors.task_failure(run.workflow_id)
        return failing_workflow(run, workflow, failure) if failure else None  # None: it went on since the description
    except PermanentError:  # concerns a single run, and `unsupervised` reports it
        return None


@dataclass(frozen=True)
class AuditActivities:
    findings: Findings
    kept_for: timedelta  # age at which audits and closed findings are deleted
    remove_unknown_jobs: bool = False

    @activity.defn(no_thread_cancel_exception=True)
    def begin_audit(self, step: AuditRequest) -> AuditRef:
        """Begin the audit. Its uid is the execution's run id, so the activity's next try begins no second audit."""
        audit = AuditRef(
            audit_uid=activity.info().workflow_run_id or "",
            began_at=datetime.now(UTC),
            repair=step.repair,
            remove_unknown_jobs=step.remove_unknown_jobs or self.remove_unknown_jobs,
        )
        if audit.repair:
            self.findings.begin(audit)
        return audit

    @activity.defn(no_thread_cancel_exception=True)
    def finish_audit(self, report: AuditReport) -> Counted:
        """Close the open findings that this audit did not see again, for the parts examined to their end."""
        if not report.audit.repair:
            return Counted(count=0)
        kinds = [kind for part, result in report.parts.items() if result.problem is None for kind in part.kinds]
        closed = self.findings.close(report.audit, kinds) if kinds else 0
        self.findings.finish(report, self.kept_for)
        return Counted(count=closed)
