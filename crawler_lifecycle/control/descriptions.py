"""What does Temporal say of a workflow? In the server's own words: the SDK's description fails at a status that the
SDK does not know, such as that of a workflow that somebody has paused."""

from collections.abc import Sequence
from datetime import UTC
from typing import Any

from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import WorkflowExecutionStatus

from crawler_lifecycle.domain.audit import Described
from crawler_lifecycle.domain.naming import RUN_WORKFLOW

MISSING = Described(is_open=False, end="missing")
CLOSED = {each.value: each.name.lower() for each in WorkflowExecutionStatus if each.name != "RUNNING"}


def described(info: WorkflowExecutionInfo) -> Described:
    """What is not known to be closed is open."""
    return Described(
        is_open=info.status not in CLOSED,
        end=CLOSED.get(info.status, ""),
        ended_at=info.close_time.ToDatetime(UTC) if info.HasField("close_time") else None,
        is_ours=info.type.name == RUN_WORKFLOW,
        first_execution=info.first_run_id,
    )


def run_of(given: Sequence[Any]) -> int | None:
    """Of what a workflow of a run was given: a request, or what an execution hands to its continuation."""
    match given:
        case [{"carried": {"plan": {"run": {"run_id": int(run_id)}}}}] | [{"run_id": int(run_id)}]:
            return run_id
        case [{"crawler": str(), **rest}] if rest.get("run_id") is None:
            return 0
    return None
