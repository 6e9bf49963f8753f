"""The supervisor's side of the ledger: beginnings, readings, writes and starts, called once and called twice."""

from crawler_lifecycle.adapters.sql.database import Database
from crawler_lifecycle.contract.states import RunStatus
from crawler_lifecycle.flows import Workflow, crawl
from tests.contracts.flows import pushed
from tests.unit.flows.work import plain, with_context


def diamond() -> Workflow:
    return (
        Workflow("diamond", id="diamond")
        .add("top", plain)
        .add("left", crawl("books"), deps="top")
        .add("right", plain, deps="top")
        .add_cascade("bottom", with_context, deps=["left", "right"])
    )


def test_a_flow_goes_to_its_end(database: Database) -> None:
    flow = pushed(database, diamond())
    flow.go_on()
    assert flow.states == {"top": "executing", "left": "suspended", "right": "suspended", "bottom": "suspended"}
    flow.end(flow.last("top"), result='"up"')
    flow.go_on()
    flow.end(flow.last("right"), result="[1, 2]")
    (crawls,) = flow.start_crawls(flow.last("left")).crawls
    run = flow.run(crawls)
    flow.close(run)
    assert flow.states["left"] == "completed"  # although the supervisor has not noted the end yet
    flow.go_on()
    claimed = flow.claim(flow.last("bottom"))
    assert [step.path for step in claimed.mine] == ["bottom"]
    inputs = flow.store.step_claims.inputs(flow.uid, claimed.mine[0].start.number)
    results = flow.store.step_claims.results(flow.uid, [0, 1, 2])
    assert inputs.sources == {"left": 1, "right": 2}
    assert results[0] == "up"
    assert results[2] == [1, 2]
    receipt = results[1]
    assert isinstance(receipt, dict)
    assert (receipt["run_id"], receipt["status"]) == (run.run_id, RunStatus.COMPLETED)
    flow.end(flow.last("bottom"))
    flow.go_on()
    (record,) = flow.store.flow_records.page(limit=9)
    assert (record.state, record.counts) == ("completed", {"completed": 4})
    assert record.started_at
    assert record.stopped_at
    assert flow.events == ["pushed", "ended"]
    assert flow.go_on().is_empty
