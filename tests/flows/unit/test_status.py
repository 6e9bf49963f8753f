"""Graphs 1e: status, counts and times. Handles and waiting need a client; 56 is decided here as far as it is pure."""

import json
from datetime import timedelta
from typing import Any

from crawler_lifecycle.flows import RunningJob, Workflow
from crawler_lifecycle.flows.model.records import FlowStatus
from crawler_lifecycle.flows.rules.ends import AttemptBegun, AttemptEnd
from crawler_lifecycle.flows.rules.interventions import selected
from crawler_lifecycle.flows.rules.merging import new_ledger
from crawler_lifecycle.flows.rules.states import effective
from crawler_lifecycle.flows.rules.summary import status
from crawler_lifecycle.model.flow_states import FlowIntent, FlowState
from crawler_lifecycle.testing import MemoryFlows
from tests.flows.plays import COMPLETED, FAILED, NOW, Play
from tests.kit.authors.work import UserNotifier, plain


def graph() -> Workflow:
    sub = Workflow().add("x", plain).add_many("deep", [plain, plain], deps="x")
    workflow = Workflow("nightly", id="flow").add("a", plain).add_workflow("sub", sub, deps="a")
    return workflow.add("z", plain, deps="sub")


def flow() -> Play:
    return Play(graph())


def test_051_a_status_has_all_fields() -> None:
    play = flow()
    play.advance()
    play.later(minutes=1)
    play.end("a")
    play.advance()
    shown = play.status
    assert (shown.id, shown.name, shown.state, shown.total) == ("flow", "nightly", FlowState.EXECUTING, 5)
    assert shown.counts == {"suspended": 3, "executing": 1, "completed": 1}
    assert (shown.started_at, shown.stopped_at, shown.duration) == (NOW, None, None)
    assert shown.elapsed == timedelta(minutes=1)
    assert list(shown.subs) == ["sub"]


def test_052_counts_are_over_all_levels() -> None:
    play = flow()
    play.run()
    shown = play.status
    assert (shown.total, shown.counts) == (5, {"completed": 5})
    assert (shown.subs["sub"].total, shown.subs["sub"].subs["deep"].total) == (3, 2)
    assert shown.subs["sub"].name == "sub"
    assert shown.subs["sub"].state is FlowState.COMPLETED


def test_053_counts_of_absent_states_are_0() -> None:
    shown = FlowStatus.model_validate_json(flow().status.model_dump_json())
    counts: tuple[Any, Any] = shown.counts, shown.subs["sub"].counts
    assert [of_level["discarded"] for of_level in counts] == [0, 0]
    assert json.loads(shown.model_dump_json())["counts"] == {"suspended": 4, "available": 1}


def test_052_a_graft_is_shown_once_it_is_attached() -> None:
    play = Play(Workflow().add_graft("g", UserNotifier.new({"account_id": 2})))
    assert play.status.subs == {}
    assert play.status.total == 1
    play.run(call=True)
    assert play.status.subs["g"].total == 2
    assert play.status.total == 3


def test_054_times_from_the_first_start_to_the_last_end() -> None:
    play = flow()
    assert play.status.started_at is None
    assert play.status.elapsed is None
    for path in ("a", "sub/x", "sub/deep/0", "sub/deep/1", "z"):
        play.advance()
        play.later(minutes=1)
        play.end(path)
    play.advance()
    play.later(minutes=10)
    shown = play.status
    assert (shown.started_at, shown.stopped_at) == (NOW, NOW + timedelta(minutes=5))
    assert shown.duration == shown.elapsed == timedelta(minutes=5)
    assert shown.subs["sub"].duration == timedelta(minutes=3)


def test_054_a_flow_that_was_cancelled_before_any_start_has_no_duration() -> None:
    play = flow()
    play.cancel()
    play.advance()
    assert (play.status.state, play.status.duration) == (FlowState.CANCELLED, None)


def test_054_a_cancelled_job_that_still_runs_keeps_the_flow_open() -> None:
    play = flow()
    play.advance()
    play.cancel()
    play.advance()
    assert (play.status.state, play.status.stopped_at) == (FlowState.EXECUTING, None)
    play.end("a")
    play.advance()
    assert play.status.state is FlowState.CANCELLED


def test_055_a_retry_opens_the_times_again() -> None:
    play = flow()
    play.run(fails={"z": [None]})
    assert play.status.duration is not None
    play.later(hours=1)
    play.retry("z")
    assert (play.status.stopped_at, play.status.duration, play.status.started_at) == (None, None, NOW)


def test_056_a_handle_for_a_running_job_is_its_sub_workflow() -> None:
    handle = Workflow.for_job(RunningJob("flow", "sub/deep/0"))
    assert (handle.id, handle.path) == ("flow", "sub/deep")
    assert (handle.root().id, handle.root().path) == ("flow", "")
    top = Workflow.for_job(RunningJob("flow", "a"))
    assert top.root() is top


def test_057_jobs_come_in_the_order_of_their_insertion() -> None:
    play = flow()
    assert [row.path for row in selected(play.ledger, None)] == ["a", "sub/x", "sub/deep/0", "sub/deep/1", "z"]
    assert [row.path for row in selected(play.ledger, ["z", "sub/deep"])] == ["sub/deep/0", "sub/deep/1", "z"]


async def test_057_dependencies_of_a_job_are_its_direct_ones() -> None:
    dependencies = {
        "a": [],
        "sub/x": ["a"],
        "sub/deep/0": ["sub/x"],
        "z": ["sub/x", "sub/deep/0", "sub/deep/1"],
    }
    async with MemoryFlows.open():
        workflow = graph()
        await workflow.push()
        for path, paths in dependencies.items():
            job = RunningJob("flow", path)
            for handle in (workflow, Workflow.for_job(job)):
                assert [dependency.path for dependency in await handle.all_jobs(deps_of=job)] == paths
        assert await workflow.all_jobs(deps_of=RunningJob("flow", "nobody")) == []


def test_060_the_end_of_an_attempt_counts_before_a_supervisor_noted_it() -> None:
    play = flow()
    play.advance()
    row = play.row("a")
    assert effective(row, []) is row
    assert effective(row, [AttemptEnd(row.number, row.attempt, COMPLETED, NOW)]).state == "completed"
    assert effective(row, [AttemptEnd(row.number, row.attempt, FAILED, NOW)]).state == "discarded"


def test_the_begin_of_an_attempt_counts_before_a_supervisor_noted_it() -> None:
    play = flow()
    row = play.row("a")
    begun = AttemptBegun(row.number, 1, 1, NOW)
    assert effective(row, [begun, AttemptEnd(row.number, 1, COMPLETED, NOW)]).state == "completed"
    executing = effective(row, [begun])
    assert (executing.state, executing.attempt, executing.started_at) == ("executing", 1, NOW)
    assert effective(executing, [begun]) is executing
    assert effective(row, [AttemptBegun(row.number, 2, 1, NOW), AttemptBegun(row.number, 1, 2, NOW)]) is row


def test_a_flow_without_jobs_and_a_paused_flow() -> None:
    empty = new_ledger(Workflow().add_many("none", []).definition())
    assert status(empty, NOW).state is FlowState.EXECUTING
    play = flow()
    play.hold(FlowIntent.PAUSE)
    assert play.status.state is FlowState.PAUSED
