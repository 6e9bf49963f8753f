"""Flows' states from their members' states, and the words for users from Chancy."""

from collections.abc import Mapping
from enum import StrEnum

from crawler_lifecycle.flows.rules.ends import AttemptEnd, after_end
from crawler_lifecycle.flows.rules.rows import MemberRow
from crawler_lifecycle.model.flow_states import FlowState, MemberState


class StepState(StrEnum):
    """A step's state in Chancy's words."""

    PENDING = "pending"
    RUNNING = "running"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class WorkflowState(StrEnum):
    """A workflow's state in Chancy's words."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


_STEP_STATES = {
    MemberState.SUSPENDED: StepState.PENDING,
    MemberState.AVAILABLE: StepState.PENDING,
    MemberState.SCHEDULED: StepState.PENDING,
    MemberState.EXECUTING: StepState.RUNNING,
    MemberState.RETRYABLE: StepState.RETRYING,
    MemberState.COMPLETED: StepState.SUCCEEDED,
    MemberState.CANCELLED: StepState.FAILED,
    MemberState.DISCARDED: StepState.FAILED,
}


def flow_state(counts: Mapping[MemberState, int]) -> FlowState:
    """Return the overall state from the numbers of members by state; UNKNOWN without members."""
    if any(count for state, count in counts.items() if not state.is_final):
        return FlowState.EXECUTING
    return final_state(counts) if any(counts.values()) else FlowState.UNKNOWN


def final_state(counts: Mapping[MemberState, int]) -> FlowState:
    """Return the state of a flow without open members: discarded before cancelled before completed."""
    if counts.get(MemberState.DISCARDED):
        return FlowState.DISCARDED
    return FlowState.CANCELLED if counts.get(MemberState.CANCELLED) else FlowState.COMPLETED


def step_state(state: MemberState) -> StepState:
    return _STEP_STATES[state]


def workflow_state(state: FlowState, *, has_started: bool) -> WorkflowState:
    """Return the flow's state in Chancy's words: FAILED only after the last attempt has ended."""
    if state is FlowState.COMPLETED:
        return WorkflowState.COMPLETED
    if state.is_final:
        return WorkflowState.FAILED
    return WorkflowState.RUNNING if has_started else WorkflowState.PENDING


def effective(row: MemberRow, end: AttemptEnd | None) -> MemberRow:
    """Return the row for readers and cancels: the attempt's end counts before the supervisor notes the end."""
    return row if end is None else after_end(row, end)
