"""The course of an audit that repairs, in an installation of its own: in that of the others it would go on with the
runs of all cases. What it finds there, and what must be true afterwards."""

import asyncio
from collections import Counter

from sqlalchemy import insert
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest

from crawler_lifecycle.database.schema import scope_changes
from crawler_lifecycle.flows.model.requests import ApproveMember, PushFlow
from crawler_lifecycle.limits.store.uses import FIGURES
from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.audits import AuditReport, AuditRequest, FindingKind, FindingRecord
from crawler_lifecycle.model.flow_states import FlowState
from crawler_lifecycle.model.naming import AUDIT_WORKFLOW
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.states import TaskStatus
from tests.crash.flows import die_after_commit, until_ended
from tests.crash.graph import deciding
from tests.crash.stack import BETWEEN_NUDGES, PATIENCE, PAUSE, Case, patiently, until
from tests.process.stops import assert_stopped

FLOW = "unsupervised"
MOST_AUDITS = 6
BEFORE_THE_EXPORT = "initiate_export_signal.before"
DISAGREES = {
    FindingKind.UNSUPERVISED: 2,
    FindingKind.LEFTOVER_JOB: 1,
    FindingKind.EXPORT_PENDING: 1,
    FindingKind.FLOW_UNSUPERVISED: 1,
    FindingKind.MISCOUNTED: 1,
}


async def audited(case: Case) -> Started:
    """One run was terminated, the history of another deleted, the third was not exported, and of the fourth a job was
    made when it was over; one is well. A flow's door died before its nudge, and somebody has changed a sum by hand.

    The dispatcher and the watcher of this installation are away."""
    terminated, deleted, pending, stopped, well = [
        await case.begin(name=name, tasks=2 if name == "stopped" else 1)
        for name in ("terminated", "deleted", "pending", "stopped", "well")
    ]
    for run in case.begun:
        await until(lambda run=run: case.site.statuses(run)[0] is TaskStatus.RUNNING)  # type: ignore[misc]
    await _job_too_late(case, stopped)
    await _never_exported(case, pending)
    await _terminate(case, terminated)
    await _delete(case, deleted)
    await die_after_commit(case, "push", PushFlow(definition=deciding(FLOW).definition()))

    _miscount(case)

    await _mended(case)
    await case.site.control.flows.change(FLOW, ApproveMember(path="wait"))
    await case.site.control.flows.change(FLOW, ApproveMember(path="go"))
    await until_ended(case, FLOW, FlowState.COMPLETED)
    for run in (terminated, deleted):
        case.site.release(run, 0)
        await case.nudge_until_handed_over(run)
    await case.until_handed_over(pending)
    for run in (terminated, deleted, pending):
        await case.site.assert_true(run, {0: 0})
    await until(lambda: not case.site.processes(stopped))
    jobs = {key: job.began for key, job in case.site.jobs(stopped).items()}
    assert jobs == {(0, 1): 1, (1, 1): 1}

    await _until_listed_as_closed(case)
    last = await _audit(case, "last")
    assert last.is_complete, last.parts
    assert last.findings == []
    assert case.site.control.audits.overview().open == {}
    case.site.release(well, 0)
    await case.nudge_until_handed_over(well)
    assert (await case.site.assert_true(well, {0: 0})).run.epoch == 1
    case.site.assert_one_history_per_request()
    return terminated


async def _mended(case: Case) -> None:
    """By one audit; where what it asks fails, it tells what it could not do, and the next does it."""
    await _until_listed_as_closed(case)
    for number in range(MOST_AUDITS if case.plan.fault else 1):
        report = await _audit(case, f"audit-{number}")
        assert report.is_complete, report.parts
        listed = case.site.control.audits.overview(findings=100).findings
        # tasks of workflows are late on a busy machine, and then a workflow seems to fail
        findings = [finding for finding in listed if finding.kind is not FindingKind.WORKFLOW_FAILING]
        if all(_is_mended(each) for each in findings):
            break
    assert Counter(each.kind for each in findings) == DISAGREES, findings
    assert all(_is_mended(each) for each in findings), findings


def _is_mended(finding: FindingRecord) -> bool:
    """By the audit that found it, or without its knowing: what failed had been done, or was late."""
    return finding.closed_at is not None or (finding.acts > 0 and not finding.problem)


async def _job_too_late(case: Case, run: Started) -> None:
    await case.site.control.runs.stop(run.run_id, StopRequest(actor="ann"))
    await case.nudge_until_handed_over(run)
    details = await assert_stopped(case.site, run)
    assert details.tasks[1].job_name is None
    await case.deploy(run, attempt=1, task=1)
    await until(lambda: (1, 1) in case.site.jobs(run))


async def _never_exported(case: Case, run: Started) -> None:
    """The worker dies before the event, and the workflow is terminated before another one begins with it.

    The archive has slots of its own: the next worker may have made it by then.
    """
    case.deaths.arm()
    case.site.release(run, 0)
    async with asyncio.timeout(PATIENCE):
        while BEFORE_THE_EXPORT not in case.noted:
            await case.nudge(run)
            await asyncio.sleep(BETWEEN_NUDGES)
    await _terminate(case, run)
    details = case.site.details(run)
    assert details.run.status.is_over
    assert "run_ended" not in [export.kind for export in details.exports]


def _miscount(case: Case) -> None:
    change = {"scope": "label:nowhere", **dict.fromkeys(FIGURES, 1)}
    case.site.control.parts.database.transact(lambda tx: tx.execute(insert(scope_changes), change))


async def _terminate(case: Case, run: Started) -> None:
    client = await case.site.control.engine.client()
    await client.get_workflow_handle(run.workflow_id).terminate("a test")


async def _delete(case: Case, run: Started) -> None:
    client = await case.site.control.engine.client()
    execution = WorkflowExecution(workflow_id=run.workflow_id)
    await client.workflow_service.delete_workflow_execution(
        DeleteWorkflowExecutionRequest(namespace=client.namespace, workflow_execution=execution)
    )
    async with asyncio.timeout(PATIENCE):
        while (await patiently(lambda: case.site.control.engine.describe(run.workflow_id))).end != "missing":
            await asyncio.sleep(PAUSE)


async def _until_listed_as_closed(case: Case) -> None:
    """Temporal's list has seen what we did."""
    mended = [run.workflow_id for run in case.begun if not run.workflow_id.endswith("-well")]
    async with asyncio.timeout(PATIENCE):
        while await patiently(lambda: case.site.control.engine.open_among(mended)):
            await asyncio.sleep(PAUSE)


async def _audit(case: Case, which: str) -> AuditReport:
    engine = case.site.control.engine
    async with asyncio.timeout(PATIENCE):
        handle = await engine.start(
            AUDIT_WORKFLOW, AuditRequest(repair=True), f"{which}-{case.plan.name}", "a crash test"
        )
        return AuditReport.model_validate(await engine.result(handle))
