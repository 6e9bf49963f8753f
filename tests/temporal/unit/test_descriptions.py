"""Is what Temporal says of a workflow understood, also what the SDK has no word for?"""

from datetime import UTC, datetime
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.common.v1 import WorkflowType
from temporalio.api.enums.v1 import WorkflowExecutionStatus
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse

from crawler_lifecycle.model.lifecycle import Carried, Continuation
from crawler_lifecycle.model.naming import RUN_WORKFLOW
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.run_plan import RunPlan, RunRef
from crawler_lifecycle.model.states import Trigger
from crawler_lifecycle.temporal.engine import run_id_in, workflow_info

CLOSED_AT = datetime(2026, 11, 20, 12, tzinfo=UTC)


def answer(info: WorkflowExecutionInfo) -> DescribeWorkflowExecutionResponse:
    return DescribeWorkflowExecutionResponse(workflow_execution_info=info)


@pytest.mark.parametrize("status", ["UNSPECIFIED", "RUNNING", "PAUSED"])
def test_what_is_not_closed_is_open(status: str) -> None:
    number = WorkflowExecutionStatus.Value(f"WORKFLOW_EXECUTION_STATUS_{status}")
    seen = workflow_info(answer(WorkflowExecutionInfo(status=number, type=WorkflowType(name=RUN_WORKFLOW))))
    assert (seen.is_open, seen.is_ours, seen.ended_at) == (True, True, None)


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "CANCELED", "TERMINATED", "TIMED_OUT"])
def test_what_is_closed(status: str) -> None:
    closed_at = Timestamp()
    closed_at.FromDatetime(CLOSED_AT)
    number = WorkflowExecutionStatus.Value(f"WORKFLOW_EXECUTION_STATUS_{status}")
    info = WorkflowExecutionInfo(
        status=number, type=WorkflowType(name="Another"), first_run_id="first", close_time=closed_at
    )
    seen = workflow_info(answer(info))
    assert (seen.is_open, seen.end, seen.ended_at) == (False, status.lower(), CLOSED_AT)
    assert (seen.is_ours, seen.first_execution) == (False, "first")


REF = RunRef(run_id=7, run_uid="one", epoch=2)
PLAN = RunPlan(run=REF, crawler="books", trigger=Trigger.API, tasks=1, begun_at=CLOSED_AT)
CONTINUATION = Continuation(carried=Carried(plan=PLAN))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([RunRequest(crawler="books", run_id=7).model_dump(mode="json")], 7),
        ([CONTINUATION.model_dump(mode="json")], 7),
        ([RunRequest(crawler="books").model_dump(mode="json")], 0),
        ([{"crawler": "books"}], 0),
        ([{"run_id": "seven"}], None),
        (["books"], None),
        ([], None),
    ],
)
def test_which_run_a_workflow_was_given(given: list[Any], expected: int | None) -> None:
    assert run_id_in(given) == expected
