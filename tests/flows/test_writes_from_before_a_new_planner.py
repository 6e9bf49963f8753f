"""A new planner left the former planner's waiting writes: a member was cancelled beside a dependency that ran again.

And all rows were read while a write was under way: the new planner waited for an end that the write had put on record.
"""

import pytest

from crawler_lifecycle.flows.rules.messages import FlowRef
from crawler_lifecycle.flows.rules.plan import MemberChange, Unconfirmed
from crawler_lifecycle.flows.rules.planner import Planner
from crawler_lifecycle.flows.rules.rows import FlowRow, Ledger, MemberRow
from crawler_lifecycle.flows.workflows.course import Bell, Course, Writes
from crawler_lifecycle.flows.workflows.news import News
from crawler_lifecycle.model.flow_states import FlowState, MemberKind, MemberState

pytestmark = pytest.mark.regression(
    "A new planner left the previous planner's pending writes: a member was cancelled by mistake"
)


def planner() -> Planner:
    ledger = Ledger(FlowRow("nightly"))
    ledger.put([MemberRow(1, "later", kind=MemberKind.CRAWL)], [])
    return Planner(ledger)


@pytest.mark.parametrize("state", [None, FlowState.DISCARDED])
def test_a_new_planner_drops_what_waits_to_be_written(state: FlowState | None) -> None:
    former = planner()
    course = Course(FlowRef(uid="uid", epoch=1), "w", former, 1, Writes(Bell()), Unconfirmed())
    row = former.rows[1]
    course.writes.add([MemberChange(row, row._replace(state=MemberState.CANCELLED))], state)
    assert not course.writes.is_idle
    course.renew(planner(), 2, 0)
    assert course.writes.is_idle


def test_a_reading_of_all_rows_waits_for_the_end_of_a_write() -> None:
    course = Course(FlowRef(uid="uid", epoch=1), "w", planner(), 1, Writes(Bell()), Unconfirmed())
    news = News(Bell())
    news.want(first=True, all_rows=True)
    news.begin(course, is_writing=True)
    assert (news.is_wanted, news.is_under_way, news.comes_first) == (True, False, True)
