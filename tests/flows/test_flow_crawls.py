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
from tests.flows.flow_crawls import id_of, make_run, start
from tests.kit.data.flows import Flow, pushed
from tests.kit.service.rig import Rig

FAILED = WorkflowInfo(is_open=False, end="failed")


@pytest.fixture
def flow(database: Database) -> Flow:
    workflow = Workflow().add("known", crawl("books")).add("unknown", crawl("nobody"))
    return pushed(database, workflow.add("large", crawl("books", tasks=51)))


def check(rig: Rig, flow: Flow) -> StartsChecked:
    before = datetime.now(UTC) + timedelta(minutes=1)
    return rig.do(rig.flow_crawls.check_starts, CheckStarts(flow=flow.flow, before=before))


def test_the_catalogue_refuses_what_can_never_become_a_run(rig: Rig, flow: Flow) -> None:
    started = start(rig, flow, "known", "unknown", "large")
    assert [workflow_id for workflow_id, _ in rig.supervisors.started] == [id_of(flow, "known")]
    assert [(end.number, end.kind.value, end.reason) for end in started.ends] == [
        (1, "failed", "start_refused"),
        (2, "failed", "start_refused"),
    ]
    errors = [flow.store.flow_records.attempts(flow.id, number)[0].error for number in (1, 2)]
    assert errors == [
        "crawler: there is no crawler named nobody",
        "tasks: 51 are asked for, this installation allows 50 in a run",
    ]


def test_an_absent_catalogue_refuses_nothing(rig: Rig, flow: Flow) -> None:
    rig.deployer.trouble = TemporaryError("the scheduler does not answer")
    assert start(rig, flow, "known", "unknown").ends == ()
    assert len(rig.supervisors.started) == 2


def test_a_repeated_start_starts_nothing_twice(rig: Rig, flow: Flow) -> None:
    start(rig, flow, "known", "unknown")
    again = start(rig, flow, "known", "unknown")
    assert [workflow_id for workflow_id, _ in rig.supervisors.started] == [id_of(flow, "known")]
    assert [end.number for end in again.ends] == [1]
    assert again.stale == ""


def test_a_refused_attempt_stays_refused_when_the_catalogue_learns_of_its_crawler(rig: Rig, flow: Flow) -> None:
    refused = start(rig, flow, "unknown")
    rig.deployer.scripts["nobody"] = "true"
    again = start(rig, flow, "unknown")
    assert [end.number for end in again.ends] == [end.number for end in refused.ends] == [1]
    assert rig.supervisors.started == []


def test_a_start_behind_a_door_is_stale_and_starts_nothing(rig: Rig, flow: Flow) -> None:
    flow.append("more", Workflow().add("more", crawl("books")))
    assert start(rig, flow, "known").stale == "0"
    assert rig.supervisors.started == []
    assert flow.row("known").attempt == 0


def test_a_workflow_that_failed_without_a_run_refuses_its_attempt(rig: Rig, flow: Flow) -> None:
    start(rig, flow, "known")
    assert check(rig, flow) == StartsChecked()
    rig.supervisors.described[id_of(flow, "known")] = FAILED
    rig.supervisors.failures[id_of(flow, "known")] = "crawler: it is gone"
    (end,) = check(rig, flow).ends
    assert (end.number, end.reason) == (0, "start_refused")
    assert flow.store.flow_records.attempts(flow.id, 0)[0].error == "crawler: it is gone"
    assert check(rig, flow) == StartsChecked()


def test_a_workflow_that_was_terminated_without_a_run_refuses_its_attempt(rig: Rig, flow: Flow) -> None:
    start(rig, flow, "known")
    rig.supervisors.described[id_of(flow, "known")] = WorkflowInfo(is_open=False, end="terminated")
    assert [(end.number, end.outcome) for end in check(rig, flow).ends] == [(0, "terminated")]
    assert flow.store.flow_records.attempts(flow.id, 0)[0].error == "its workflow was terminated"


def test_a_run_that_comes_after_the_refusal_of_its_attempt_is_not_made(rig: Rig, flow: Flow) -> None:
    """An activity of the terminated workflow was still under way."""
    start(rig, flow, "known")
    rig.supervisors.described[id_of(flow, "known")] = WorkflowInfo(is_open=False, end="terminated")
    assert check(rig, flow).ends
    with pytest.raises(Conflict, match="was refused before its run"):
        make_run(rig, flow, "known")


def test_a_run_made_while_its_workflow_is_looked_at_counts(rig: Rig, flow: Flow, monkeypatch: Any) -> None:
    start(rig, flow, "known")
    rig.supervisors.described[id_of(flow, "known")] = FAILED

    async def describe(workflow_id: str) -> WorkflowInfo:
        make_run(rig, flow, "known")
        return FAILED

    monkeypatch.setattr(rig.supervisors, "describe", describe)
    assert check(rig, flow) == StartsChecked()


def test_an_attempt_without_a_workflow_is_missing(rig: Rig, flow: Flow) -> None:
    start(rig, flow, "known")
    rig.supervisors.described.clear()
    assert check(rig, flow) == StartsChecked(missing="0")


def stop(rig: Rig, flow: Flow) -> int:
    step = StopAttempts(flow=flow.flow, flow_id=flow.id, members="0")
    return rig.do(rig.flow_crawls.stop_attempts, step).count


def test_a_stop_is_on_record_and_reaches_the_workflow(rig: Rig, flow: Flow) -> None:
    start(rig, flow, "known")
    run = make_run(rig, flow, "known")
    flow.cancel("known")
    assert stop(rig, flow) == stop(rig, flow) == 1
    assert [workflow_id for workflow_id, _ in rig.supervisors.stopped] == [id_of(flow, "known")] * 2
    stopped = rig.store.records.details(run.run_id)
    assert (stopped.run.intent, stopped.run.status) == (Intent.STOP, RunStatus.STOPPING)
    lines = [line for line in stopped.log if line.actor == f"flow {flow.id}"]
    assert [line.door for line in lines] == ["flow"]


def test_a_stop_of_a_run_without_an_open_workflow_starts_the_workflow(rig: Rig, flow: Flow) -> None:
    start(rig, flow, "known")
    run = make_run(rig, flow, "known")
    flow.cancel("known")
    rig.supervisors.described[id_of(flow, "known")] = WorkflowInfo(is_open=False, end="terminated")
    stop(rig, flow)
    workflow_id, request = rig.supervisors.started[-1]
    assert (workflow_id, request.run_id) == (run.workflow_id, run.run_id)


def test_a_stop_before_the_run_is_for_the_workflow_alone(rig: Rig, flow: Flow) -> None:
    start(rig, flow, "known")
    flow.cancel("known")
    assert stop(rig, flow) == 1
    (stopped,) = rig.supervisors.stopped
    assert stopped[0] == id_of(flow, "known")


def test_a_run_that_is_over_is_not_stopped(rig: Rig, flow: Flow) -> None:
    start(rig, flow, "known")
    run = make_run(rig, flow, "known")
    flow.close(run)
    assert stop(rig, flow) == 0
    assert rig.supervisors.stopped == []
