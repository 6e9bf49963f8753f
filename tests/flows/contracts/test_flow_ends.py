"""Ends of flows on record: each end is written once with its facts, and is owed until it is announced."""

from datetime import UTC, datetime, timedelta

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.flows.ports.ledger import Delivery
from crawler_lifecycle.model.flow_states import FlowState, MemberState
from tests.kit.data.flows import failing, pushed

NOTICE, EVENT = Delivery.NOTICE, Delivery.EVENT
AN_HOUR = timedelta(hours=1)


def test_an_end_is_on_record_with_its_facts(database: Database) -> None:
    flow = failing(database)
    (owed,) = flow.store.flow_ends.owed(flow.uid)
    end = owed.end
    assert owed.owed == {NOTICE, EVENT}
    assert (end.end, end.flow_id, end.flow_uid, end.name, end.family) == (1, "w", flow.uid, "nightly", "shops")
    assert (end.state, end.total) == (FlowState.DISCARDED, 3)
    assert end.counts == {MemberState.CANCELLED: 1, MemberState.COMPLETED: 1, MemberState.DISCARDED: 1}
    assert [(failure.path, failure.state) for failure in end.failures] == [("a", "discarded"), ("c", "cancelled")]
    assert end.failures[0].reason == ("no such table " * 100)[:300]
    assert end.started_at is not None
    assert end.elapsed_seconds == (end.at - end.started_at).total_seconds()


def test_an_open_flow_has_no_end(database: Database) -> None:
    flow = pushed(database, Workflow(id="w").add("shop", crawl("books")))
    flow.go_on()
    assert flow.store.flow_ends.owed(flow.uid) == []


def test_a_repeated_write_makes_no_second_end_and_a_retry_does(database: Database) -> None:
    flow = failing(database)
    assert flow.write(state=FlowState.DISCARDED)
    flow.retry("a")
    flow.go_on()
    flow.end(flow.last("a"))
    flow.go_on()
    flow.end(flow.last("c"))
    while not flow.go_on().is_empty:
        pass
    ends = [owed.end for owed in flow.store.flow_ends.owed(flow.uid)]
    assert [(end.end, end.state, len(end.failures)) for end in ends] == [(1, "discarded", 2), (2, "completed", 0)]


def test_deliveries_are_settled_one_by_one(database: Database) -> None:
    flow = failing(database)
    ends = flow.store.flow_ends
    for _ in range(2):
        ends.settle(flow.uid, 1, [EVENT], {NOTICE: "the receiver is away"})
    assert [owed.owed for owed in ends.owed(flow.uid)] == [{NOTICE}]
    for _ in range(2):
        ends.settle(flow.uid, 1, [NOTICE], {})
    assert ends.owed(flow.uid) == []
    assert flow.events == ["pushed", "ended", "undelivered", "delivered"]


def test_a_refusal_for_good_is_settled_with_its_reason(database: Database) -> None:
    flow = failing(database)
    flow.store.flow_ends.settle(flow.uid, 1, [NOTICE, EVENT], {NOTICE: "it answers 410"})
    assert flow.store.flow_ends.owed(flow.uid) == []
    lines = flow.store.flow_records.lines(flow.id, after=0, limit=9)
    assert (lines[-1].event, lines[-1].message) == ("undelivered", "notice of end 1: it answers 410")


def test_the_audit_pages_through_ended_flows_that_owe(database: Database) -> None:
    first, second, announced, opened = (failing(database, name) for name in ("a", "b", "announced", "opened"))
    announced.store.flow_ends.settle(announced.uid, 1, [NOTICE, EVENT], {})
    opened.retry("a")
    ends, now = first.store.flow_ends, datetime.now(UTC)

    def uids(since: datetime = now - AN_HOUR, before: datetime = now, **page: str) -> list[str]:
        return [flow.uid for flow in ends.unannounced(since, before, limit=9, **page)]

    low, high = sorted([first.uid, second.uid])
    assert uids() == [low, high]
    assert uids(after=low) == [high]
    assert len(ends.unannounced(now - AN_HOUR, now, limit=1)) == 1
    assert uids(since=now) == uids(before=now - AN_HOUR) == []


def test_a_pruned_flow_leaves_no_end(database: Database) -> None:
    flow = failing(database)
    assert flow.store.flow_doors.prune([flow.uid]) == 1
    assert flow.store.flow_ends.owed(flow.uid) == []
    flow.store.flow_ends.settle(flow.uid, 1, [NOTICE], {})  # by an activity that had read before
