"""Deciding: people's decisions about approvals, and holds on a flow."""

from dataclasses import replace

from crawler_lifecycle.errors import BadInput, Conflict, Over
from crawler_lifecycle.flows.rules.cancelling import Effect
from crawler_lifecycle.flows.rules.rows import Ledger
from crawler_lifecycle.flows.rules.selecting import no_job
from crawler_lifecycle.model.flow_states import FlowIntent, FlowState, MemberKind


def approve(ledger: Ledger, path: str, *, approved: bool) -> Effect:
    """Return the approval with the decision, which may come before the flow reaches the approval.

    Conflict for another decision: the first decision holds.
    """
    number = ledger.paths_of_members().get(path)
    if number is None:
        raise no_job(ledger, path)
    row = ledger.members[number]
    if row.kind is not MemberKind.APPROVAL:
        raise BadInput("name", f"{path!r} is no approval")
    if row.decision is approved:
        return Effect()
    if row.state.is_final:
        raise Conflict(f"approval {path!r} is {row.state} already")
    if row.decision is not None:
        raise Conflict(f"approval {path!r} is {'approved' if row.decision else 'rejected'} already")
    return Effect((row._replace(decision=approved),), count=1)


def hold(ledger: Ledger, intent: FlowIntent) -> Effect:
    """Return the flow's row with the requested intent: pause, drain, or run."""
    flow = ledger.flow
    if flow.state.is_final:
        raise Over(f"flow {flow.id!r} is {flow.state} already")
    if flow.intent is intent:
        return Effect()
    state = FlowState.PAUSED if intent is FlowIntent.PAUSE else FlowState.EXECUTING
    return Effect(flow=replace(flow, intent=intent, state=state), count=1)
