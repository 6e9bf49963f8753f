"""A workflow with every kind of member, need and group."""

from datetime import UTC, datetime

from crawler_lifecycle.flows import Workflow, crawl, each_task
from tests.kit.authors.work import graft_function, item_and_context, plain, with_context


def wide() -> Workflow:
    """A workflow with every kind of member, need and group."""
    inner = Workflow().add("x", plain).add_cascade("y", with_context, deps="x").add_context({"inner": (1, 2)})
    return (
        Workflow("nightly", id="wide", family="shops", max_parallel=5)
        .add_context({"day": datetime(2026, 1, 1, tzinfo=UTC)})
        .add("shop", crawl("books", arguments={"lang": "de"}), retries=2, when="archived")
        .add_cascade("parse", each_task("shop", item_and_context))
        .add_workflow("sub", inner, deps="shop")
        .add_many("many", [plain, plain], deps="sub", priority=3)
        .add_graft("grafted", graft_function, deps="many")
        .add_approval("release", deps="many", timeout=1234567.5)
        .add_cascade("load", with_context, deps=["release", "grafted"], ignore_discarded=True, schedule_in=30)
    )
