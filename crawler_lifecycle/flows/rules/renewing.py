"""Renewing: the members with another attempt after a retry, while all further results are kept."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.model.requests import Downstream, RetryMembers
from crawler_lifecycle.flows.rules.cancelling import Effect
from crawler_lifecycle.flows.rules.leaving_out import advice_after_retry, left_out
from crawler_lifecycle.flows.rules.rows import FlowRow, Ledger, MemberRow
from crawler_lifecycle.flows.rules.selecting import descendants, selected
from crawler_lifecycle.flows.rules.standing import standing
from crawler_lifecycle.model.flow_states import FAILED, FlowIntent, MemberKind, MemberState


def retry(ledger: Ledger, request: RetryMembers, at: datetime) -> Effect:
    """Return the members that a retry brings back: in a new generation, or at once if they wait for a retry already."""
    named = selected(ledger, request.paths)
    _check_arguments(request, named)
    with_all = request.downstream is Downstream.ALL
    states = _states(completed=request.completed or (with_all and request.paths is not None))
    renewed = {row.number: row for row in named if row.state in states}
    if with_all:
        behind = (ledger.members[number] for number in sorted(descendants(ledger, renewed)))
        renewed |= {row.number: row for row in behind if row.state in _states(completed=True)}
    rows = tuple(_again(row, ledger, at) for row in renewed.values())
    unchanged = left_out(ledger, request.paths, renewed.keys(), advice_after_retry)
    return Effect(rows, _reopened(ledger.flow) if rows else None, len(rows), unchanged)


def _states(*, completed: bool) -> Collection[MemberState]:
    states = {*FAILED, MemberState.RETRYABLE}
    return {*states, MemberState.COMPLETED} if completed else states


def _again(row: MemberRow, ledger: Ledger, at: datetime) -> MemberRow:
    if row.state is MemberState.RETRYABLE:
        return row._replace(due=at)
    renewed = row._replace(
        generation=row.generation + 1,
        tries=0,
        tries_by_outcome=(),
        state=MemberState.SUSPENDED,
        cause=None,
        reason=None,
        outcome=None,
        decision=None,
        ended_at=None,
    )
    return standing(renewed, ledger.groups, at)


def _check_arguments(request: RetryMembers, named: list[MemberRow]) -> None:
    if request.arguments is None:
        return
    if request.paths is None:
        raise BadInput("arguments", "only together with the names of the jobs that get them")
    approval = next((row for row in named if row.kind is MemberKind.APPROVAL), None)
    if approval is not None:
        raise BadInput("arguments", f"{approval.path!r} is an approval, which takes no arguments")


def _reopened(flow: FlowRow) -> FlowRow:
    """Return the flow's row, which is open again in the same transaction. A drain is over; a pause holds on."""
    intent = FlowIntent.PAUSE if flow.intent is FlowIntent.PAUSE else FlowIntent.RUN
    return replace(flow, state=flow.open_state, intent=intent, accepts_members=True)
