"""Crawls of a flow: refused starts, starts that are repeated, workflows that failed, and stops."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import Conflict, TemporaryError
from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.flows.rules.messages import CheckStarts, StartsChecked, StopAttempts
from crawler_lifecycle.model.states import Intent, RunStatus
from crawler_lifecycle.model.supervision import WorkflowInfo
from tests.activities.flow_crawls import id_of, make_run, start
from tests.contracts.flows import Flow, pushed
from tests.house import House

FAILED = WorkflowInfo(is_open=False, end="failed")


@pytest.fixture
def flow(database: Database) -> Flow:
    workflow = Workflow().add("known", crawl("books")).add("unknown", crawl("nobody"))
    return pushed(database, workflow.add("large", crawl("books", tasks=51)))


def check(house: House, flow: Flow) -> StartsChecked:
    before = datetime.now(UTC) + timedelta(minutes=1)
    return house.do(house.flow_crawls.check_starts, CheckStarts(flow=flow.flow, before=before))


def test_the_catalogue_refuses_what_can_never_become_a_run(house: House, flow: Flow) -> None:
    started = start(house, flow, "known", "unknown", "large")
    assert [workflow_id for workflow_id, _ in house.supervisors.started] == [id_of(flow, "known")]
    assert [(end.number, end.kind.value, end.reason) for end in started.ends] == [
        (1, "failed", "start_refused"),
        (2, "failed", "start_refused"),
    ]
    errors = [flow.store.flow_records.attempts(flow.id, number)[0].error for number in (1, 2)]
    assert errors == [
        "crawler: there is no crawler named nobody",
        "tasks: 51 are asked for, this installation allows 50 in a run",
    ]


def test_an_absent_catalogue_refuses_nothing(house: House, flow: Flow) -> None:
    house.deployer.trouble = TemporaryError("the scheduler does not answer")
    assert start(house, flow, "known", "unknown").ends == ()
    assert len(house.supervisors.started) == 2


def test_a_repeated_start_starts_nothing_twice(house: House, flow: Flow) -> None:
    start(house, flow, "known", "unknown")
    again = start(house, flow, "known", "unknown")
    assert [workflow_id for workflow_id, _ in house.supervisors.started] == [id_of(flow, "known")]
    assert [end.number for end in again.ends] == [1]
    assert again.stale == ""


def test_a_refused_attempt_stays_refused_when_the_catalogue_learns_of_its_crawler(house: House, flow: Flow) -> None:
    refused = start(house, flow, "unknown")
    house.deployer.scripts["nobody"] = "true"
    again = start(house, flow, "unknown")
    assert [end.number for end in again.ends] == [end.number for end in refused.ends] == [1]
    assert house.supervisors.started == []


def test_a_start_behind_a_door_is_stale_and_starts_nothing(house: House, flow: Flow) -> None:
    flow.append("more", Workflow().add("more", crawl("books")))
    assert start(house, flow, "known").stale == "0"
    assert house.supervisors.started == []
    assert flow.row("known").attempt == 0


def test_a_workflow_that_failed_without_a_run_refuses_its_attempt(house: House, flow: Flow) -> None:
    start(house, flow, "known")
    assert check(house, flow) == StartsChecked()
    house.supervisors.described[id_of(flow, "known")] = FAILED
    house.supervisors.failures[id_of(flow, "known")] = "crawler: it is gone"
    (end,) = check(house, flow).ends
    assert (end.number, end.reason) == (0, "start_refused")
    assert flow.store.flow_records.attempts(flow.id, 0)[0].error == "crawler: it is gone"
    assert check(house, flow) == StartsChecked()


def test_a_workflow_that_was_terminated_without_a_run_refuses_its_attempt(house: House, flow: Flow) -> None:
    start(house, flow, "known")
    house.supervisors.described[id_of(flow, "known")] = WorkflowInfo(is_open=False, end="terminated")
    assert [(end.number, end.outcome) for end in check(house, flow).ends] == [(0, "terminated")]
    assert flow.store.flow_records.attempts(flow.id, 0)[0].error == "its workflow was terminated"


def test_a_run_that_comes_after_the_refusal_of_its_attempt_is_not_made(house: House, flow: Flow) -> None:
    """An activity of the terminated workflow was still under way."""
    start(house, flow, "known")
    house.supervisors.described[id_of(flow, "known")] = WorkflowInfo(is_open=False, end="terminated")
    assert check(house, flow).ends
    with pytest.raises(Conflict, match="was refused before its run"):
        make_run(house, flow, "known")


def test_a_run_made_while_its_workflow_is_looked_at_counts(house: House, flow: Flow, monkeypatch: Any) -> None:
    start(house, flow, "known")
    house.supervisors.described[id_of(flow, "known")] = FAILED

    async def describe(workflow_id: str) -> WorkflowInfo:
        make_run(house, flow, "known")
        return FAILED

    monkeypatch.setattr(house.supervisors, "describe", describe)
    assert check(house, flow) == StartsChecked()


def test_an_attempt_without_a_workflow_is_missing(house: House, flow: Flow) -> None:
    start(house, flow, "known")
    house.supervisors.described.clear()
    assert check(house, flow) == StartsChecked(missing="0")


def stop(house: House, flow: Flow) -> int:
    step = StopAttempts(flow=flow.flow, flow_id=flow.id, members="0")
    return house.do(house.flow_crawls.stop_attempts, step).count


def test_a_stop_is_on_record_and_reaches_the_workflow(house: House, flow: Flow) -> None:
    start(house, flow, "known")
    run = make_run(house, flow, "known")
    flow.cancel("known")
    assert stop(house, flow) == stop(house, flow) == 1
    assert [workflow_id for workflow_id, _ in house.supervisors.stopped] == [id_of(flow, "known")] * 2
    stopped = house.store.records.details(run.run_id)
    assert (stopped.run.intent, stopped.run.status) == (Intent.STOP, RunStatus.STOPPING)
    lines = [line for line in stopped.log if line.actor == f"flow {flow.id}"]
    assert [line.door for line in lines] == ["flow"]


def test_a_stop_of_a_run_without_an_open_workflow_starts_the_workflow(house: House, flow: Flow) -> None:
    start(house, flow, "known")
    run = make_run(house, flow, "known")
    flow.cancel("known")
    house.supervisors.described[id_of(flow, "known")] = WorkflowInfo(is_open=False, end="terminated")
    stop(house, flow)
    workflow_id, request = house.supervisors.started[-1]
    assert (workflow_id, request.run_id) == (run.workflow_id, run.run_id)


def test_a_stop_before_the_run_is_for_the_workflow_alone(house: House, flow: Flow) -> None:
    start(house, flow, "known")
    flow.cancel("known")
    assert stop(house, flow) == 1
    (stopped,) = house.supervisors.stopped
    assert stopped[0] == id_of(flow, "known")


def test_a_run_that_is_over_is_not_stopped(house: House, flow: Flow) -> None:
    start(house, flow, "known")
    run = make_run(house, flow, "known")
    flow.close(run)
    assert stop(house, flow) == 0
    assert house.supervisors.stopped == []
