"""The audit's workflow: part by part, page by page, and what is in the way of one part costs the others nothing."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from crawler_lifecycle.model.audits import AuditPage, AuditPart, AuditReport, AuditStep, Finding, FindingKind
from tests.kit.temporal.script import Script


async def audit(environment: WorkflowEnvironment, script: Script, request: Any) -> AuditReport:
    queue = f"queue-{uuid4()}"
    async with Worker(environment.client, task_queue=queue, activities=script.activities()):
        told = await environment.client.execute_workflow(
            "AuditWorkflow", request, id=f"audit-{uuid4()}", task_queue=queue
        )
    return AuditReport.model_validate(told)


def paged(step: AuditStep) -> AuditPage:
    """Two hundred pages of runs, a finding in each."""
    number = int(step.after or 0) + 1
    if step.part is not AuditPart.RUNS:
        return AuditPage(examined=7, unknown=1)
    finding = Finding(kind=FindingKind.UNSUPERVISED, subject=str(number), message="lost")
    rest = str(number) if number < 200 else None
    return AuditPage(examined=1000, found={finding.kind: 2}, acted=1, findings=[finding, finding], rest=rest)


@pytest.mark.system
async def test_every_part_in_its_turn(skipping: WorkflowEnvironment) -> None:
    script = Script(audited=paged)
    report = await audit(skipping, script, {"repair": True})
    assert script.names == [
        "begin_audit",
        *["audit_runs"] * 200,
        "audit_jobs",
        "audit_handovers",
        "audit_flows",
        "finish_audit",
    ]
    assert [step.after for step in script.inputs("audit_runs")][:3] == [None, "1", "2"]
    assert all(step.audit.repair for step in script.inputs("audit_runs"))
    runs = report.parts[AuditPart.RUNS]
    assert (runs.examined, runs.found, runs.acted) == (200_000, {FindingKind.UNSUPERVISED: 400}, 200)
    assert (report.is_complete, report.findings_count, len(report.findings)) == (True, 400, 200)
    assert script.inputs("finish_audit") == [report]


@pytest.mark.system
async def test_a_long_one_continues_where_it_is(short_histories: WorkflowEnvironment) -> None:
    script = Script(audited=paged)
    report = await audit(short_histories, script, {})
    assert script.names == [
        "begin_audit",
        *["audit_runs"] * 200,
        "audit_jobs",
        "audit_handovers",
        "audit_flows",
        "finish_audit",
    ]
    assert report.parts[AuditPart.RUNS].examined == 200_000
    assert not report.audit.repair


@pytest.mark.long
async def test_an_outage_of_one_part_is_told_and_the_others_go_on(skipping: WorkflowEnvironment) -> None:
    script = Script(failures={"audit_runs": 3, "audit_jobs": 1000})
    report = await audit(skipping, script, {"repair": True})
    assert script.names.count("audit_runs") == 4
    assert script.names[-2:] == ["audit_flows", "finish_audit"]
    assert not report.is_complete
    problems = {part: each.problem for part, each in report.parts.items() if each.problem}
    assert list(problems) == [AuditPart.JOBS]
    assert "nobody answers" in str(problems[AuditPart.JOBS])


async def test_no_part_keeps_the_others_waiting_for_long(skipping: WorkflowEnvironment) -> None:
    script, queue = Script(), f"queue-{uuid4()}"
    async with Worker(skipping.client, task_queue=queue, activities=script.activities()):
        handle = await skipping.client.start_workflow("AuditWorkflow", {}, id=f"audit-{uuid4()}", task_queue=queue)
        await handle.result()
    scheduled = [
        event.activity_task_scheduled_event_attributes
        for event in (await handle.fetch_history()).events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    limits = {
        each.activity_type.name: each.schedule_to_close_timeout.ToTimedelta()
        for each in scheduled
        if each.activity_type.name in ("audit_runs", "audit_jobs", "audit_handovers", "audit_flows")
    }
    assert len(limits) == 4
    assert set(limits.values()) == {timedelta(minutes=30)}


async def test_bad_input_is_an_error_at_once(skipping: WorkflowEnvironment) -> None:
    script = Script()
    with pytest.raises(WorkflowFailureError) as failed:
        await audit(skipping, script, {"repiar": True})
    assert "repiar" in str(failed.value.cause)
    assert script.names == []
