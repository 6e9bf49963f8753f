"""Course: a flow's planner, and the further state in common for the supervisor's parts."""

from collections.abc import Iterable
from dataclasses import dataclass

from crawler_lifecycle.domain.flows.ends import AttemptEnd
from crawler_lifecycle.domain.flows.messages import FlowPage, FlowRef
from crawler_lifecycle.domain.flows.planner import Planner
from crawler_lifecycle.domain.flows.rows import GroupRow, Ledger, MemberRow
from crawler_lifecycle.domain.flows.unconfirmed import Unconfirmed
from crawler_lifecycle.workflows.flow_writes import Writes


def planner_of(page: FlowPage, members: Iterable[MemberRow], groups: Iterable[GroupRow]) -> Planner:
    """Return a planner for the rows on record. `page`: any page from the same reading."""
    ledger = Ledger(page.row)
    ledger.put(members, groups)
    return Planner(ledger)


@dataclass
class Course:
    """A flow as its supervisor knows the flow. `door`: number of the last door whose rows the planner has."""

    flow: FlowRef
    flow_id: str
    planner: Planner
    door: int
    writes: Writes
    unconfirmed: Unconfirmed

    def observe_ends(self, ends: Iterable[AttemptEnd]) -> None:
        """Take ends of attempts. An attempt with an end is on record."""
        for end in ends:
            self.unconfirmed.confirm(end.number, end.attempt)
            self.planner.observe(end)

    def is_under_way(self, number: int, attempt: int) -> bool:
        """Return whether the member's present attempt is this attempt, and has not ended."""
        row = self.planner.rows.get(number)
        return row is not None and row.in_flight and row.attempt == attempt
