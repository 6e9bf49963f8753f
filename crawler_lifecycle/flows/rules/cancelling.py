"""Cancelling: the members that a cancel ends, and their number."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime

from crawler_lifecycle.flows.model.answers import LeftOut
from crawler_lifecycle.flows.rules.leaving_out import advice_after_cancel, left_out
from crawler_lifecycle.flows.rules.rows import FlowRow, Ledger, MemberRow
from crawler_lifecycle.flows.rules.selecting import selected
from crawler_lifecycle.flows.rules.words import BY_REQUEST
from crawler_lifecycle.model.flow_states import MemberState


@dataclass(frozen=True, slots=True)
class Effect:
    """Rows to write for a request, and the number for its author."""

    members: tuple[MemberRow, ...] = ()
    flow: FlowRow | None = None
    count: int = 0
    left_out: tuple[LeftOut, ...] = ()  # named jobs without a change

    def apply(self, ledger: Ledger) -> None:
        """Write the rows into a ledger in memory."""
        ledger.put(self.members)
        if self.flow is not None:
            ledger.flow = self.flow


def cancel(ledger: Ledger, paths: Collection[str] | None, at: datetime, *, terminate: bool = True) -> Effect:
    """Return the cancelled members. Without paths, the flow takes no further members until a retry.

    The rows are effective: the end of an attempt counts although its member's row still shows the attempt. Dependents
    of the cancelled members follow with the next plan, and do not count. A flow that has ended is open again if a run
    was reopened since: otherwise no audit would look for the supervisor that stops the run.
    """
    cancelled = tuple(
        row._replace(
            state=MemberState.CANCELLED,
            cause=None,
            reason=BY_REQUEST,
            since=at,
            due=None,
            terminate=terminate,
            ended_at=at,
        )
        for row in selected(ledger, paths)
        if not row.state.is_final
    )
    flow = replace(ledger.flow, state=ledger.flow.open_state) if cancelled else ledger.flow
    if paths is None and not flow.state.is_final:
        flow = replace(flow, accepts_members=False)
    # a repeated cancel is no failure: the first answer may be lost
    as_wanted = {number for number, row in ledger.members.items() if row.state is MemberState.CANCELLED}
    unchanged = left_out(ledger, paths, as_wanted.union(row.number for row in cancelled), advice_after_cancel)
    return Effect(cancelled, None if flow == ledger.flow else flow, len(cancelled), unchanged)
