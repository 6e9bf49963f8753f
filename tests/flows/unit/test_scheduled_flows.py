"""The workflow of a schedule's occurrence: its flow starts once, and the occurrence is open until the flow is over."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError, CancelledError

from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.flows.model.definition import FlowDefinition
from crawler_lifecycle.flows.model.records import FlowAnswer
from crawler_lifecycle.flows.model.requests import PushFlow
from crawler_lifecycle.flows.ports.records import FlowRecord
from crawler_lifecycle.flows.rules.messages import FlowOccurrence
from crawler_lifecycle.flows.workflows import scheduled_flow
from crawler_lifecycle.model.naming import SCHEDULED_FLOW_WORKFLOW
from tests.kit.authors.work import plain
from tests.kit.data.flows import Flow
from tests.kit.temporal.flow_stage import FlowStage
from tests.kit.temporal.graphs import pair
from tests.kit.waiting import eventually

SOON = timedelta(milliseconds=100)


async def occur(stage: FlowStage, workflow: Workflow, due: str | None = None) -> tuple[str, WorkflowHandle[Any, Any]]:
    """Start the occurrence of a schedule named `nightly`. Return the id that its flow has."""
    flow_id = due or f"nightly-{uuid4()}"
    handle = await stage.client.start_workflow(
        SCHEDULED_FLOW_WORKFLOW,
        FlowOccurrence(schedule_id="nightly", definition=workflow.definition(), requested_by="ann"),
        id=f"crawl-{flow_id}",
        task_queue=stage.queue,
    )
    return flow_id, handle


def records(stage: FlowStage) -> list[FlowRecord]:
    return stage.store.flow_records.page(limit=9)


async def begun(stage: FlowStage, flow_id: str) -> Flow:
    """The flow, as soon as its step `a` runs."""
    await stage.host.begun["a"].wait()
    return Flow(stage.store, flow_id, stage.store.flow_records.uid_of(flow_id))


async def test_an_occurrence_ends_with_its_flow(flows: FlowStage) -> None:
    flow_id, occurrence = await occur(flows, Workflow("shops", id="shops").add("shop", crawl("books")))
    await flows.crawls.end("shop")
    assert await occurrence.result() == {"flow_uid": records(flows)[0].uid, "flow_id": flow_id, "state": "completed"}
    (record,) = records(flows)
    assert (record.id, record.name, record.family, record.created_by) == (flow_id, "shops", "nightly", "ann")


async def test_the_same_occurrence_again_starts_no_second_flow(flows: FlowStage) -> None:
    """A backfill of a time that has had its flow."""
    flow_id, occurrence = await occur(flows, pair())
    await occurrence.result()
    _, again = await occur(flows, pair(), flow_id)
    assert (await again.result())["state"] == "completed"
    assert flows.host.played == ["a", "b"]
    assert len(records(flows)) == 1


@pytest.mark.long
async def test_a_supervisor_that_others_started_is_followed(flows: FlowStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker died between the push and the start of the supervisor; the audit was first."""
    monkeypatch.setattr(scheduled_flow, "PAUSE", SOON)
    flows.host.hold("a")
    flow_id = f"nightly-{uuid4()}"
    flow, supervisor = await flows.start(Workflow(id=flow_id).add("a", plain))
    await flows.host.begun["a"].wait()
    _, occurrence = await occur(flows, pair(), flow_id)
    flows.host.release("a")
    assert (await supervisor.result())["state"] == "completed"
    assert (await occurrence.result())["flow_uid"] == flow.uid


async def test_a_terminated_supervisor_is_replaced(flows: FlowStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduled_flow, "PAUSE", SOON)
    flows.host.hold("a")
    flow_id, occurrence = await occur(flows, pair())
    flow = await begun(flows, flow_id)
    await flows.supervisor(flow).terminate("an operator's mistake")
    flows.host.release("a")
    assert (await occurrence.result())["state"] == "completed"
    assert flows.host.played == ["a", "b"]


async def test_a_cancel_ends_with_the_proof_that_nothing_runs(flows: FlowStage) -> None:
    """Temporal cancels so for the overlap rule `replace`, and starts the next occurrence behind the end."""
    flow_id, occurrence = await occur(flows, Workflow().add("shop", crawl("books")))
    run = await flows.crawls.run_of("shop")
    await occurrence.cancel()
    await eventually(lambda: flows.crawls.stopped == [run.workflow_id])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):  # the run is still there
            await occurrence.result()
    await flows.crawls.end("shop")
    with pytest.raises(WorkflowFailureError) as failure:
        await occurrence.result()
    assert isinstance(failure.value.cause, CancelledError)
    (record,) = records(flows)
    assert (record.id, record.state) == (flow_id, "cancelled")


async def test_a_cancel_during_the_push_leaves_no_flow_to_itself(
    flows: FlowStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flow was on record without a supervisor, and the audit would have started the flow beside its successor."""
    flow_id, loop = f"nightly-{uuid4()}", asyncio.get_running_loop()
    handle, doors = flows.client.get_workflow_handle(f"crawl-{flow_id}"), flows.store.flow_doors
    push = doors.push

    def cancel_and_push(request: PushFlow) -> FlowAnswer:
        asyncio.run_coroutine_threadsafe(handle.cancel(), loop).result()
        return push(request)

    monkeypatch.setattr(doors, "push", cancel_and_push)
    _, occurrence = await occur(flows, pair(), flow_id)
    with pytest.raises(WorkflowFailureError):
        await occurrence.result()
    (record,) = records(flows)
    assert (record.id, record.state) == (flow_id, "cancelled")


async def test_a_flow_that_no_push_takes_fails_its_occurrence(flows: FlowStage) -> None:
    definition = FlowDefinition(id="empty")
    handle = await flows.client.start_workflow(
        SCHEDULED_FLOW_WORKFLOW,
        FlowOccurrence(schedule_id="nightly", definition=definition),
        id=f"crawl-{uuid4()}",
        task_queue=flows.queue,
    )
    with pytest.raises(WorkflowFailureError) as failure:
        await handle.result()
    assert isinstance(failure.value.cause, ApplicationError)
    assert "has no jobs" in failure.value.cause.message
