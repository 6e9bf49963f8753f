"""Resets of a flow's workflow, as Temporal's tools make them."""

from functools import partial
from typing import Any
from uuid import uuid4

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import WorkflowHandle

from tests.kit.temporal.flow_stage import FlowStage
from tests.kit.waiting import eventually_async


async def task_behind(supervisor: WorkflowHandle[Any, Any], ends: int) -> int:
    """Wait for a workflow task behind this number of ended activities, and return the event of the first one."""
    return int(await eventually_async(partial(_task_behind, supervisor, ends)) or 0)


async def _task_behind(supervisor: WorkflowHandle[Any, Any], ends: int) -> int | None:
    ended = 0
    async for event in supervisor.fetch_history_events():
        ended += event.HasField("activity_task_completed_event_attributes")
        if ended >= ends and event.HasField("workflow_task_completed_event_attributes"):
            return event.event_id
    return None


async def reset(flows: FlowStage, supervisor: WorkflowHandle[Any, Any], ends: int) -> WorkflowHandle[Any, Any]:
    """Reset the supervisor to the workflow task behind this number of ended activities. Return the new execution."""
    task = await task_behind(supervisor, ends)
    former = WorkflowExecution(workflow_id=supervisor.id, run_id=(await supervisor.describe()).run_id)
    answer = await flows.client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=flows.client.namespace,
            workflow_execution=former,
            workflow_task_finish_event_id=task,
            request_id=str(uuid4()),
            reason="an operator's mistake",
        )
    )
    return flows.client.get_workflow_handle(supervisor.id, run_id=answer.run_id)
