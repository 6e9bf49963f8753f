"""Graphs 1f, and holds and approvals: the effects of people's requests."""

import pytest

from crawler_lifecycle.errors import BadInput, Conflict, NotFound
from crawler_lifecycle.flows import RetryPolicy, Workflow, crawl
from crawler_lifecycle.flows.model.requests import Downstream
from crawler_lifecycle.flows.rules.planner import Planner
from crawler_lifecycle.model.flow_states import FlowIntent, FlowState, MemberState
from tests.flows.plays import CANCELLED, FAILED, Play
from tests.kit.authors.work import plain


def chain() -> Play:
    workflow = Workflow().add("a", plain).add("b", plain, deps="a").add("c", plain, deps="b")
    return Play(workflow.add_many("m", [plain, plain], deps="a"))


def test_061_cancel_counts_what_is_not_final() -> None:
    play = chain()
    play.advance()
    play.end("a")
    play.advance()
    assert play.cancel() == 4
    assert play.cancel() == 0
    assert play.states["a"] == "completed"


def test_061_a_sub_workflows_name_means_all_of_it() -> None:
    play = chain()
    assert play.cancel("m") == 2
    with pytest.raises(NotFound, match="no job 'nowhere'"):
        play.cancel("nowhere")
    assert play.run() is FlowState.CANCELLED
    assert play.order == ["a", "b", "c"]


def test_062_an_executing_job_is_cancelled_at_once_and_its_result_refused() -> None:
    play = chain()
    play.advance()
    assert play.cancel("a") == 1
    assert play.row("a").state is MemberState.CANCELLED
    plan = play.advance()
    assert plan.stops == (0,)
    assert play.stopped == ["a"]
    assert plan.flow_state is None
    play.end("a")
    assert play.advance().flow_state is FlowState.CANCELLED
    assert play.row("a").state is MemberState.CANCELLED


def test_062_a_cancel_may_leave_the_attempt_alone() -> None:
    play = chain()
    play.advance()
    play.cancel("a", terminate=False)
    play.advance()
    assert play.stopped == []
    assert play.ledger.flow.state is FlowState.EXECUTING
    play.end("a")
    assert play.advance().flow_state is FlowState.CANCELLED


def test_062_a_new_planner_asks_for_the_stop_again() -> None:
    play = chain()
    play.advance()
    play.cancel("a")
    play.advance()
    assert Planner(play.ledger).advance(play.now).stops == (0,)


def test_063_dependents_are_cancelled_and_not_counted() -> None:
    play = chain()
    assert play.cancel("b") == 1
    play.advance()
    assert (play.states["c"], play.row("c").reason) == ("cancelled", "dependency:b")


def test_064_retry_takes_failed_and_waiting_jobs_only() -> None:
    workflow = Workflow().add("fine", plain).add("fails", plain).add("waits", plain, retries=1)
    workflow.add("behind", plain, deps="fails").add("runs", plain)
    play = Play(workflow)
    play.advance()
    play.end("fine")
    play.end("fails", FAILED)
    play.end("waits", FAILED)
    play.advance()
    assert play.states["waits"] == "retryable"
    assert play.retry() == 3
    play.advance()
    assert play.states == {
        "fine": "completed",
        "fails": "executing",
        "waits": "executing",
        "behind": "suspended",
        "runs": "executing",
    }
    assert (play.row("fails").generation, play.row("waits").generation) == (2, 1)
    assert play.retry("runs", "fine") == 0


def test_064_completed_jobs_only_on_demand() -> None:
    play = chain()
    play.run()
    assert play.retry("c") == 0
    assert play.retry("c", completed=True) == 1
    assert play.ledger.flow.state is FlowState.EXECUTING
    assert play.run() is FlowState.COMPLETED
    assert play.order[-1] == "c"
    assert play.row("c").attempt == 2


def test_065_a_retried_job_is_available_or_suspended_and_its_attempts_start_anew() -> None:
    workflow = Workflow().add("a", plain, retry=RetryPolicy(max_attempts=2, pause_seconds=0))
    play = Play(workflow.add("b", plain, deps="a"))
    play.run(fails={"a": [None, None]})
    play.retry()
    assert play.states == {"a": "available", "b": "suspended"}
    assert play.run(fails={"a": [None]}) is FlowState.COMPLETED
    assert (play.row("a").attempt, play.row("a").generation, play.row("a").tries) == (4, 2, 2)


def test_065_a_retried_job_with_satisfied_dependencies_starts_at_once() -> None:
    play = chain()
    play.run(fails={"b": [None]})
    assert play.retry("b") == 1
    assert play.row("b").state is MemberState.SUSPENDED
    play.advance()
    assert play.states["b"] == "executing"


def test_065_dependents_that_failed_only_for_the_retried_job_stand_again() -> None:
    play = chain()
    play.run(fails={"b": [None]})
    assert play.states["c"] == "cancelled"
    assert play.retry("b") == 1
    assert play.run() is FlowState.COMPLETED
    assert play.row("c").generation == 1


def test_065_a_retried_job_behind_a_failure_is_cancelled_again() -> None:
    play = chain()
    play.run(fails={"b": [None]})
    assert play.retry("c") == 1
    assert play.run() is FlowState.DISCARDED
    assert play.row("c").reason == "dependency:b"


def test_065_a_retry_waits_until_the_former_attempt_has_ended() -> None:
    play = chain()
    play.advance()
    play.cancel("a")
    play.advance()
    play.retry("a")
    assert not play.advance().starts
    play.end("a", CANCELLED)
    assert [start.attempt for start in play.advance().starts] == [2]
    assert play.states["a"] == "executing"


def test_067_the_flow_is_open_in_the_transaction_of_the_retry() -> None:
    play = chain()
    play.cancel()
    assert play.run() is FlowState.CANCELLED
    assert play.ledger.flow.accepts_members is False
    assert play.retry("a") == 1
    assert play.ledger.flow.state is FlowState.EXECUTING
    assert play.ledger.flow.accepts_members is True


def test_063_a_push_after_a_cancel_takes_members_again() -> None:
    play = Play(Workflow(id="flow").add("a", plain))
    play.advance()
    play.cancel()
    play.push(Workflow(id="flow").add("b", plain))
    assert play.ledger.flow.accepts_members is True
    play.advance()
    play.end("a")
    assert play.run() is FlowState.CANCELLED
    assert play.states == {"a": "cancelled", "b": "completed"}


def test_068_a_repeated_cancel_or_retry_is_not_counted() -> None:
    play = chain()
    assert [play.cancel("b"), play.cancel("b")] == [1, 0]
    play.advance()
    assert [play.retry("b"), play.retry("b")] == [1, 0]
    assert play.cancel("b", "c") in (1, 2)


def test_a_partial_run_from_a_job_keeps_earlier_results() -> None:
    play = chain()
    play.run(call=True)
    assert play.retry("b", downstream=Downstream.ALL) == 2
    assert play.states == {"a": "completed", "b": "suspended", "c": "suspended", "m/0": "completed", "m/1": "completed"}
    assert play.recorded("a") == "plain"
    assert play.run() is FlowState.COMPLETED
    assert play.order[-2:] == ["b", "c"]


def test_a_partial_run_goes_through_sub_workflows() -> None:
    inner = Workflow().add("x", plain).add("y", plain)
    workflow = Workflow().add("a", plain).add_workflow("sub", inner, deps="a").add("z", plain, deps="sub")
    play = Play(workflow)
    play.run()
    assert play.retry("sub/x", downstream=Downstream.ALL) == 2
    assert play.states == {"a": "completed", "sub/x": "suspended", "sub/y": "completed", "z": "suspended"}


def test_changed_arguments_need_names_and_a_job_that_takes_them() -> None:
    workflow = Workflow().add("a", crawl("books")).add_approval("release")
    play = Play(workflow)
    with pytest.raises(BadInput, match="only together with the names"):
        play.retry(arguments={"lang": "de"})
    with pytest.raises(BadInput, match="'release' is an approval"):
        play.retry("release", arguments={"lang": "de"})
    play.advance()
    play.end("a", FAILED)
    play.advance()
    assert play.retry("a", arguments={"lang": "de"}) == 1


def test_an_approval_waits_for_a_person() -> None:
    play = Play(Workflow().add("a", plain).add_approval("release", deps="a").add("z", plain, deps="release"))
    play.advance()
    play.end("a")
    plan = play.advance()
    assert (plan.starts, play.row("release").cause) == ((), "approval")
    assert play.approve("release") == 1
    assert play.approve("release") == 0
    play.advance()
    assert play.states["z"] == "executing"
    with pytest.raises(Conflict, match="is completed already"):
        play.approve("release", approved=False)


def test_an_approval_may_be_decided_early_or_rejected() -> None:
    workflow = Workflow().add("a", plain).add_approval("release", deps="a").add("z", plain, deps="release")
    early, rejected = Play(workflow), Play(workflow)
    early.approve("release")
    with pytest.raises(Conflict, match="is approved already"):
        early.approve("release", approved=False)
    assert early.run() is FlowState.COMPLETED
    rejected.approve("release", approved=False)
    assert rejected.run() is FlowState.CANCELLED
    assert (rejected.row("release").reason, rejected.states["z"]) == ("rejected", "cancelled")
    assert rejected.retry() == 2
    assert rejected.row("release").decision is None


def test_an_approval_is_discarded_after_its_timeout() -> None:
    play = Play(Workflow().add("a", plain).add_approval("release", deps="a", timeout=3600))
    play.advance()
    play.later(minutes=1)
    play.end("a")
    wake_at = play.advance().wake_at
    assert wake_at is not None
    assert (wake_at - play.now).total_seconds() == 3600
    play.now = wake_at
    assert play.advance().flow_state is FlowState.DISCARDED
    assert play.row("release").reason == "approval_timeout"


def test_only_approvals_are_approved() -> None:
    play = chain()
    with pytest.raises(BadInput, match="'a' is no approval"):
        play.approve("a")
    with pytest.raises(NotFound, match="no job 'nowhere'"):
        play.approve("nowhere")


def test_a_pause_holds_new_starts_only() -> None:
    play = chain()
    play.advance()
    assert play.hold(FlowIntent.PAUSE) == 1
    assert play.hold(FlowIntent.PAUSE) == 0
    play.end("a")
    plan = play.advance()
    assert (plan.starts, play.states["b"], play.ledger.flow.state) == ((), "available", FlowState.PAUSED)
    play.hold(FlowIntent.RUN)
    assert play.run() is FlowState.COMPLETED
    with pytest.raises(Conflict, match="is completed already"):
        play.hold(FlowIntent.PAUSE)


def test_a_drain_lets_attempts_end_and_cancels_the_rest() -> None:
    play = chain()
    play.advance()
    play.hold(FlowIntent.DRAIN)
    assert play.advance().is_empty
    play.end("a")
    assert play.advance().flow_state is FlowState.CANCELLED
    assert play.order == ["a"]
    assert {play.row(path).reason for path in ("b", "c", "m/0")} == {"drained"}
    assert play.retry() == 4
    assert play.run() is FlowState.COMPLETED


def test_a_paused_flow_stays_paused_when_it_is_retried() -> None:
    play = chain()
    play.advance()
    play.hold(FlowIntent.PAUSE)
    play.end("a", FAILED)
    play.advance()
    states = [play.ledger.flow.state]
    play.retry()
    states.append(play.ledger.flow.state)
    assert states == [FlowState.DISCARDED, FlowState.PAUSED]
    assert not play.advance().starts
