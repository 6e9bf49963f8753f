"""Translates Temporal's answers about a workflow into our terms.

The SDK's own description is not used, because the SDK fails at an unknown status, such as a paused workflow's status.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC
from typing import Any

from temporalio.api.enums.v1 import WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent, WorkflowTaskFailedEventAttributes
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.client import WorkflowExecutionStatus

from crawler_lifecycle.model.naming import RUN_WORKFLOW
from crawler_lifecycle.model.supervision import WorkflowInfo

MISSING = WorkflowInfo(is_open=False, end="missing")  # there is no workflow with the id
CLOSED = {status.value: status.name.lower() for status in WorkflowExecutionStatus if status.name != "RUNNING"}
LONGEST_FAILURE = 300  # characters
CAUSE_PREFIX = "WORKFLOW_TASK_FAILED_CAUSE_"


def workflow_info(answer: DescribeWorkflowExecutionResponse) -> WorkflowInfo:
    """Return the workflow's description. Any status outside of CLOSED means open, also a status unknown to the SDK."""
    info, task = answer.workflow_execution_info, answer.pending_workflow_task
    return WorkflowInfo(
        is_open=info.status not in CLOSED,
        end=CLOSED.get(info.status, ""),
        ended_at=info.close_time.ToDatetime(UTC) if info.HasField("close_time") else None,
        is_ours=info.type.name == RUN_WORKFLOW,
        first_execution=info.first_run_id,
        task_attempt=task.attempt,
        task_since=task.original_scheduled_time.ToDatetime(UTC) if task.HasField("original_scheduled_time") else None,
    )


def task_failure(latest_first: Iterable[HistoryEvent]) -> str | None:
    """Return why the last workflow task failed, in a line. None: the last task succeeded, or none has ended yet.

    `latest_first` has the end of the workflow's history. When a task fails again and again, only its first failure is
    an event, so newer events of other kinds are passed over.
    """
    for event in latest_first:
        if event.HasField("workflow_task_failed_event_attributes"):
            return _in_one_line(event.workflow_task_failed_event_attributes)
        if event.HasField("workflow_task_timed_out_event_attributes"):
            return "the worker did not answer in time"
        if event.HasField("workflow_task_completed_event_attributes"):
            return None
        if event.HasField("workflow_execution_started_event_attributes"):
            return None  # the workflow has continued in a new execution meanwhile
    return "the latest events of its history do not say why"


def _in_one_line(failed: WorkflowTaskFailedEventAttributes) -> str:
    """Return the type of the exception, or Temporal's cause if no exception was raised, with the message."""
    kind = failed.failure.application_failure_info.type
    if not kind:
        kind = WorkflowTaskFailedCause.Name(failed.cause).removeprefix(CAUSE_PREFIX).replace("_", " ").lower()
    return " ".join(f"{kind}: {failed.failure.message}".split())[:LONGEST_FAILURE]


def run_id_in(inputs: Sequence[Any]) -> int | None:
    """Return the RunID in the input of a run's workflow: a request, or the continuation of an earlier execution.

    0: the request is for a new run. None: the input is neither a request nor a continuation.
    """
    match inputs:
        case [{"carried": {"plan": {"run": {"run_id": int(run_id)}}}}] | [{"run_id": int(run_id)}]:
            return run_id
        case [{"crawler": str(), **rest}] if rest.get("run_id") is None:
            return 0
    return None
