"""Inputs of steps: contexts of the groups around a step, sources of results, and results."""

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import insert, update

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.schema import exports, histories
from crawler_lifecycle.errors import NotFound
from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.flows.authors.building import fragment_of
from crawler_lifecycle.flows.model.requests import GraftMembers
from crawler_lifecycle.flows.rules.contexts import merged_context, results_of_group, sources
from crawler_lifecycle.model.states import ExportKind, ExportState, RunStatus
from tests.kit.authors.wide_flow import wide
from tests.kit.authors.work import graft_function, plain, with_context
from tests.kit.data.flows import FAILED, pushed


def nested() -> Workflow:
    deep = Workflow().add("x", plain).add("y", plain, deps="x").add_context({"level": 2, "deep": True})
    middle = Workflow().add_workflow("deep", deep).add("z", plain, deps="deep").add_context({"level": 1})
    return (
        Workflow(id="nested")
        .add_context({"level": 0, "day": datetime(2026, 1, 1, tzinfo=UTC)})
        .add("first", plain)
        .add_many("many", {"one": plain, "two": plain})
        .add_workflow("middle", middle, deps=["first", "many"])
        .add_cascade("last", with_context, deps=["middle", "many/one", "middle/deep/y"])
    )


@pytest.mark.parametrize("workflow", [nested(), wide()], ids=["nested", "wide"])
def test_inputs_are_those_of_the_whole_ledger(database: Database, workflow: Workflow) -> None:
    flow = pushed(database, workflow)
    kept = flow.store.flow_records.kept(flow.id)
    contexts = {number: group.context for number, group in kept.groups.items()} | {0: dict(kept.context or {})}
    for number, row in kept.ledger.members.items():
        inputs = flow.store.step_ledger.inputs(flow.uid, number)
        assert inputs.sources == sources(kept.ledger, row), row.path
        assert inputs.context == merged_context(contexts, kept.ledger, row.group), row.path
    for path, number in kept.ledger.paths_of_groups().items():
        assert flow.store.step_ledger.source(flow.uid, path) == results_of_group(kept.ledger, number)
    assert flow.store.step_ledger.source(flow.uid, "nobody") is None


def test_a_path_is_the_source_of_its_member(database: Database) -> None:
    flow = pushed(database, nested())
    claims = flow.store.step_ledger
    assert claims.source(flow.uid, "middle/deep/y") == flow.row("middle/deep/y").number
    assert claims.source(flow.uid, "first") == 0
    with pytest.raises(NotFound, match="no member with the number 99"):
        claims.inputs(flow.uid, 99)
    with pytest.raises(NotFound, match="no flow with the uid"):
        claims.inputs("unknown", 0)


def test_a_grafted_step_has_the_context_of_its_graft(database: Database) -> None:
    flow = pushed(database, Workflow(id="w").add_context({"a": 1, "b": 1}).add_graft("g", graft_function))
    flow.begin_steps(flow.start("g"))
    fragment = fragment_of(Workflow().add("x", plain))
    request = GraftMembers(grafter="g", generation=1, attempt=1, fragment=fragment, context={"b": 2})
    flow.store.flow_doors.graft(flow.uid, request)
    assert flow.store.step_ledger.inputs(flow.uid, flow.row("g/x").number).context == {"a": 1, "b": 2}


def test_large_results_come_page_by_page(database: Database) -> None:
    flow = pushed(database, Workflow(id="w").add_many("many", [plain] * 4))
    starts = [flow.start(f"many/{number}") for number in range(4)]
    flow.begin_steps(*starts)
    value = "x" * 5_000_000
    for start in starts[:3]:
        flow.end(start, result=f'"{value}"')
    results = flow.store.step_ledger.results
    assert [list(results(flow.uid, numbers)) for numbers in ([0, 1, 2], [1, 3, 2], [2, 3])] == [[0], [1, 3], [2, 3]]
    assert results(flow.uid, [0])[0] == value


def test_a_crawls_result_is_its_receipt(database: Database) -> None:
    flow = pushed(database, Workflow(id="w").add("shop", crawl("books")).add("failed", crawl("books")))
    crawls = flow.start_crawls(flow.start("shop"), flow.start("failed")).crawls
    run, failed = (flow.run(start, tasks=2) for start in crawls)
    assert flow.store.step_ledger.results(flow.uid, [0, 1]) == {0: None, 1: None}
    flow.close(run)
    flow.close(failed, RunStatus.FAILED, "main_job_failed")
    receipt = {
        "run_id": run.run_id,
        "run_uid": run.run_uid,
        "status": "COMPLETED",
        "reason": "all_succeeded",
        "outcome": "finished",
        "tasks": 2,
        "archive": None,
        "stats": {"items": 3},
        "result": None,
        "files": None,
    }
    with database.transaction() as connection:
        connection.execute(update(histories).values(stats={"items": 3}))
        event = {"history_id": run.run_id, "kind": ExportKind.FILES_READY, "state": ExportState.DONE}
        for end, place in ((1, "s3://bucket/key"), (2, "s3://bucket/later")):
            row = {"event_id": str(end), "event": f'{{"end": {end}}}', "location": place, "created_at": run.created_at}
            connection.execute(insert(exports), {**event, **row})
    assert flow.store.step_ledger.results(flow.uid, [0, 1]) == {0: {**receipt, "archive": "s3://bucket/key"}, 1: None}
    assert flow.store.flow_records.results("w", [0]) == {0: {**receipt, "archive": "s3://bucket/key"}}


def test_only_a_completed_approval_has_a_decision(database: Database) -> None:
    """A step that ignores the cancel of an approval reads what everybody reads: no decision."""
    workflow = Workflow(id="w").add("bad", plain).add_approval("early", deps="bad").add_approval("given")
    flow = pushed(database, workflow.add_approval("rejected"))
    flow.approve("early", approved=True)
    flow.approve("given", approved=True)
    flow.approve("rejected", approved=False)
    flow.go_on()
    flow.end(flow.last("bad"), kind=FAILED)
    flow.go_on()
    assert flow.states == {"bad": "discarded", "early": "cancelled", "given": "completed", "rejected": "cancelled"}
    decisions: Any = flow.store.step_ledger.results(flow.uid, range(4))
    approved = {number: decision and decision["approved"] for number, decision in decisions.items()}
    assert approved == {0: None, 1: None, 2: True, 3: None}
