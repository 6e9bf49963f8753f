"""A new planner left the former planner's waiting writes: a member was cancelled beside a dependency that ran again."""

import pytest

from crawler_lifecycle.contract.flows.states import FlowState, MemberState
from crawler_lifecycle.domain.flows.messages import FlowRef
from crawler_lifecycle.domain.flows.plan import Change
from crawler_lifecycle.domain.flows.planner import Planner
from crawler_lifecycle.domain.flows.rows import FlowRow, Ledger, MemberKind, MemberRow
from crawler_lifecycle.domain.flows.unconfirmed import Unconfirmed
from crawler_lifecycle.workflows.flow_acts import Bell
from crawler_lifecycle.workflows.flow_course import Course
from crawler_lifecycle.workflows.flow_writes import Writes


def planner() -> Planner:
    ledger = Ledger(FlowRow("nightly"))
    ledger.put([MemberRow(1, "later", kind=MemberKind.CRAWL)], [])
    return Planner(ledger)


@pytest.mark.parametrize("state", [None, FlowState.DISCARDED])
def test_a_new_planner_drops_what_waits_to_be_written(state: FlowState | None) -> None:
    former = planner()
    course = Course(FlowRef(uid="uid", epoch=1), "w", former, 1, Writes(Bell()), Unconfirmed())
    row = former.rows[1]
    course.writes.add([Change(row, row._replace(state=MemberState.CANCELLED))], state)
    assert not course.writes.is_idle
    course.renew(planner(), door=2, revision=0)
    assert course.writes.is_idle
