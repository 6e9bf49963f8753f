"""Rules for the states of members and flows, also in Chancy's words.

An unstarted member has its state by its needs and start time, and a flow by its members.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum

from crawler_lifecycle.flows.rules.ends import AttemptBegun, AttemptEnd, after_end
from crawler_lifecycle.flows.rules.rows import GroupRow, MemberRow, ancestors
from crawler_lifecycle.flows.rules.words import APPROVAL, DEPENDENCIES, TIME
from crawler_lifecycle.model.flow_states import FlowState, GroupGrowth, MemberKind, MemberState


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


def released(row: MemberRow, now: datetime) -> MemberRow:
    """Return the row for a member with satisfied needs."""
    if row.start_at is not None and row.start_at > now:
        return _unstarted(row, MemberState.SCHEDULED, TIME, now, row.start_at)
    if row.kind is MemberKind.APPROVAL:
        wait = None if row.timeout_seconds is None else now + timedelta(seconds=row.timeout_seconds)
        return _unstarted(row, MemberState.AVAILABLE, APPROVAL, now, wait)
    return _unstarted(row, MemberState.AVAILABLE, None, now, None)


def after_pause(row: MemberRow, now: datetime) -> MemberRow:
    """Return the row for a member after the pause before its next attempt."""
    return _unstarted(row, MemberState.AVAILABLE, None, now, None)


def suspended(row: MemberRow, now: datetime) -> MemberRow:
    return _unstarted(row, MemberState.SUSPENDED, DEPENDENCIES, now, None)


def standing(row: MemberRow, groups: Mapping[int, GroupRow], now: datetime) -> MemberRow:
    """Return a new or retried member's row: suspended if the member has needs, released if not."""
    return suspended(row, now) if has_needs(row, groups) else released(row, now)


def has_needs(row: MemberRow, groups: Mapping[int, GroupRow]) -> bool:
    """Return whether the member, or a group around the member, has needs."""
    return bool(row.needs) or any(
        groups[number].needs or groups[number].growth is GroupGrowth.GRAFT for number in ancestors(groups, row.group)
    )


def ended(row: MemberRow, state: MemberState, reason: str | None, now: datetime) -> MemberRow:
    """Return the row for a member's end without an attempt's end."""
    return row._replace(state=state, cause=None, reason=reason, since=now, due=None, ended_at=now)


def started(row: MemberRow, attempt: int, now: datetime) -> MemberRow:
    """Return the row with its next attempt under way."""
    return row._replace(
        state=MemberState.EXECUTING,
        cause=None,
        reason=None,
        outcome=None,
        since=now,
        due=None,
        attempt=attempt,
        attempt_generation=row.generation,
        tries=row.tries + 1,
        in_flight=True,
        terminate=True,
        end=0,
        started_at=row.started_at or now,
    )


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


def after_begin(row: MemberRow, begun: AttemptBegun) -> MemberRow:
    """Return the row with its next attempt under way. Another attempt's begin changes nothing."""
    if (begun.generation, begun.attempt) != (row.generation, row.attempt + 1):
        return row
    return started(row, begun.attempt, begun.at)


def effective(row: MemberRow, news: Iterable[AttemptBegun | AttemptEnd]) -> MemberRow:
    """Return the row for readers and requests: begins and ends count before the supervisor notes them.

    `news`: in the attempts' order.
    """
    for seen in news:
        row = after_begin(row, seen) if isinstance(seen, AttemptBegun) else after_end(row, seen)
    return row


def _unstarted(row: MemberRow, state: MemberState, cause: str | None, now: datetime, due: datetime | None) -> MemberRow:
    if row.state is state and row.cause == cause and (row.due == due or state is MemberState.AVAILABLE):
        return row
    return row._replace(state=state, cause=cause, reason=None, since=now, due=due, ended_at=None)
