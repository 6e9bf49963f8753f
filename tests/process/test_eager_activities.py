"""The embedded stack's Temporal server hands out activities eagerly."""

from datetime import timedelta
from uuid import uuid4

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.command.v1 import Command, ScheduleActivityTaskCommandAttributes
from temporalio.api.common.v1 import ActivityType, WorkflowType
from temporalio.api.enums.v1 import CommandType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    PollWorkflowTaskQueueRequest,
    RespondWorkflowTaskCompletedRequest,
    StartWorkflowExecutionRequest,
    TerminateWorkflowExecutionRequest,
)

from tests.process.crawls import Site

pytestmark = [pytest.mark.process, pytest.mark.system]
QUEUE = "eager"
POLL = timedelta(seconds=30)


async def test_an_activity_comes_with_the_answer_to_its_workflow_task(stack: Site) -> None:
    """Play a worker request by request, since a worker shows no difference between the two ways of an activity."""
    client = await stack.control.engine.client()
    namespace, queue, workflow_id = client.namespace, TaskQueue(name=QUEUE), f"eager-{uuid4()}"
    service = client.workflow_service
    started = await service.start_workflow_execution(
        StartWorkflowExecutionRequest(
            namespace=namespace,
            workflow_id=workflow_id,
            workflow_type=WorkflowType(name="played"),
            task_queue=queue,
            request_id=workflow_id,
        )
    )
    task = await service.poll_workflow_task_queue(
        PollWorkflowTaskQueueRequest(namespace=namespace, task_queue=queue), timeout=POLL
    )
    assert task.workflow_execution.run_id == started.run_id
    answer = await service.respond_workflow_task_completed(
        RespondWorkflowTaskCompletedRequest(
            namespace=namespace, task_token=task.task_token, commands=[_an_activity(queue)]
        )
    )
    assert [each.activity_type.name for each in answer.activity_tasks] == ["nothing"]
    await service.terminate_workflow_execution(
        TerminateWorkflowExecutionRequest(namespace=namespace, workflow_execution=task.workflow_execution)
    )


def _an_activity(queue: TaskQueue) -> Command:
    return Command(
        command_type=CommandType.COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK,
        schedule_activity_task_command_attributes=ScheduleActivityTaskCommandAttributes(
            activity_id="1",
            activity_type=ActivityType(name="nothing"),
            task_queue=queue,
            start_to_close_timeout=Duration(seconds=60),
            request_eager_execution=True,
        ),
    )
