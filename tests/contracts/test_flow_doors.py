"""Doors of flows: push, append, graft, cancel, retry, approve, hold and prune, called once and called twice."""

from datetime import UTC, datetime

from crawler_lifecycle.adapters.sql.database import Database
from crawler_lifecycle.contract.flows.values import decode
from crawler_lifecycle.domain.flows.merging import new_ledger, push
from crawler_lifecycle.flows import Workflow, crawl, each_task
from tests.contracts.flows import pushed
from tests.unit.flows.work import graft_function, item_and_context, plain, with_context


def wide() -> Workflow:
    """A workflow with every kind of member, need and group."""
    inner = Workflow().add("x", plain).add_cascade("y", with_context, deps="x").add_context({"inner": (1, 2)})
    return (
        Workflow("nightly", id="wide", max_parallel=5)
        .add_context({"day": datetime(2026, 1, 1, tzinfo=UTC)})
        .add("shop", crawl("books", arguments={"lang": "de"}), retries=2, when="archived")
        .add_cascade("parse", each_task("shop", item_and_context))
        .add_workflow("sub", inner, deps="shop")
        .add_many("many", [plain, plain], deps="sub", priority=3)
        .add_graft("grafted", graft_function, deps="many")
        .add_approval("release", deps="many", timeout=60)
        .add_cascade("load", with_context, deps=["release", "grafted"], ignore_discarded=True, schedule_in=30)
    )


def test_a_ledger_comes_back_as_it_was_pushed(database: Database) -> None:
    workflow = wide()
    flow = pushed(database, workflow, actor="ann")
    definition = workflow.definition()
    expected = new_ledger(definition)
    push(expected, definition, flow.row("shop").since or datetime.now(UTC)).apply(expected)
    assert flow.ledger == expected
    kept = flow.store.flow_records.kept("wide")
    assert [kept.definitions[number] for number in sorted(kept.definitions)] == list(definition.members)
    assert [kept.groups[number] for number in sorted(kept.groups)] == list(definition.groups)
    assert decode(dict(kept.context or {})) == {"day": datetime(2026, 1, 1, tzinfo=UTC)}
    (record,) = flow.store.flow_records.page(limit=9)
    assert (record.id, record.name, record.created_by, record.total) == (
        "wide",
        "nightly",
        "ann",
        len(definition.members),
    )
