"""Graphs 1c: how jobs run, and the states of jobs and flows."""

from datetime import timedelta

import pytest

from crawler_lifecycle.flows import RetryPolicy, RetryRule, Workflow, crawl
from crawler_lifecycle.flows.rules import turns
from crawler_lifecycle.flows.rules.ends import AttemptEnd, RunSeen
from crawler_lifecycle.flows.rules.explanation import why
from crawler_lifecycle.flows.rules.planner import Planner
from crawler_lifecycle.flows.rules.requesting import memory_after, run_request
from crawler_lifecycle.flows.rules.rows import TOP, GroupRow, MemberRow
from crawler_lifecycle.flows.rules.states import StepState, WorkflowState, flow_state, step_state, workflow_state
from crawler_lifecycle.flows.rules.words import RESULT_UNUSABLE, snoozed
from crawler_lifecycle.model.flow_states import EndKind, FlowIntent, FlowState, MemberKind, MemberState
from crawler_lifecycle.model.states import RunStatus
from tests.flows.plays import CANCELLED, COMPLETED, FAILED, NOW, Play
from tests.kit.authors.work import cancel_itself, plain

S = MemberState


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (S.SUSPENDED, "pending"),
        (S.AVAILABLE, "pending"),
        (S.SCHEDULED, "pending"),
        (S.EXECUTING, "running"),
        (S.RETRYABLE, "retrying"),
        (S.COMPLETED, "succeeded"),
        (S.DISCARDED, "failed"),
        (S.CANCELLED, "failed"),
    ],
)
def test_030_states_in_the_words_of_chancy(state: MemberState, word: str) -> None:
    assert step_state(state) is StepState(word)


@pytest.mark.parametrize(
    ("states", "overall"),
    [
        ([S.SUSPENDED, S.DISCARDED], FlowState.EXECUTING),
        ([S.RETRYABLE, S.COMPLETED], FlowState.EXECUTING),
        ([S.SCHEDULED], FlowState.EXECUTING),
        ([S.CANCELLED, S.DISCARDED, S.COMPLETED], FlowState.DISCARDED),
        ([S.CANCELLED, S.COMPLETED], FlowState.CANCELLED),
        ([S.COMPLETED], FlowState.COMPLETED),
        ([], FlowState.UNKNOWN),
    ],
)
def test_031_the_overall_state(states: list[MemberState], overall: FlowState) -> None:
    assert flow_state(dict.fromkeys(states, 1)) is overall


def test_032_an_ignored_failure_makes_the_flow_discarded_and_the_status_ok() -> None:
    play = Play(Workflow().add("a", plain).add("b", plain, deps="a", ignore_discarded=True))
    assert play.run(fails={"a": [None]}) is FlowState.DISCARDED
    assert play.status.ok
    other = Play(Workflow().add("a", plain).add("b", plain, deps="a"))
    other.run(fails={"b": [None]})
    assert not other.status.ok


def test_033_chancys_workflow_state_fails_once_nothing_runs() -> None:
    assert workflow_state(FlowState.EXECUTING, has_started=False) is WorkflowState.PENDING
    assert workflow_state(FlowState.EXECUTING, has_started=True) is WorkflowState.RUNNING
    assert workflow_state(FlowState.COMPLETED, has_started=True) is WorkflowState.COMPLETED
    assert workflow_state(FlowState.DISCARDED, has_started=True) is WorkflowState.FAILED
    assert workflow_state(FlowState.CANCELLED, has_started=False) is WorkflowState.FAILED
    play = Play(Workflow().add("a", plain).add("b", plain))
    play.advance()
    play.end("a", FAILED)
    assert play.advance().flow_state is None
    play.end("b")
    assert play.advance().flow_state is FlowState.DISCARDED


def test_034_independent_jobs_start_together_in_their_order() -> None:
    workflow = Workflow().add("a", plain).add("b", plain).add("c", plain, priority=1)
    play = Play(workflow)
    play.advance()
    assert play.order == ["c", "a", "b"]


def test_034_a_limit_holds_back_what_is_beyond() -> None:
    workflow = Workflow(max_parallel=3).add_many("capped", [plain] * 4, max_parallel=2).add("free", plain)
    play = Play(workflow)
    play.advance()
    assert play.order == ["capped/0", "capped/1", "free"]
    play.end("free")
    assert not play.advance().starts
    play.end("capped/1")
    play.advance()
    assert play.order[-1] == "capped/2"


def test_034_crawls_beyond_the_limit_of_a_graph_without_limits_wait_in_the_graph(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "MOST_CRAWLS", 2)
    workflow = Workflow().add_many("sites", [crawl("books")] * 3).add("step", plain)
    workflow.add_many("capped", [crawl("books")] * 2, max_parallel=1, priority=2).add(
        "last", crawl("books"), priority=1
    )
    play = Play(workflow)
    play.advance()
    assert play.order == ["capped/0", "last", "step"]
    assert why(play.planner, play.row("sites/0").number).cause == "parallel_limit"
    play.end("step")
    assert not play.advance().starts
    play.end("last")
    play.advance()
    assert play.order[-1] == "sites/0", "the second crawl of the full group blocks no other crawl"
    play.end("capped/0")
    play.advance()
    assert play.order[-1] == "capped/1"
    assert play.run() is FlowState.COMPLETED


def test_034_crawls_that_are_held_back_are_no_waiting_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of waiting steps is a part of the size of slices."""
    monkeypatch.setattr(turns, "MOST_CRAWLS", 1)
    play = Play(Workflow().add_many("sites", [crawl("books")] * 3).add_many("m", [plain] * 2, max_parallel=1))
    play.advance()
    assert play.order == ["sites/0", "m/0"]
    assert play.planner.turns.waiting == 1


def test_034_a_member_that_becomes_a_crawl_waits_with_the_crawls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "MOST_CRAWLS", 0)
    line = turns.Turns()
    line.put_group(GroupRow(TOP), None)
    line.wait(MemberRow(1, "a"))
    line.wait(MemberRow(1, "a", kind=MemberKind.CRAWL))
    assert (line.take(), line.waiting) == (None, 0)
    line.wait(MemberRow(1, "a"))
    assert line.take() == 1
    assert line.take() is None


def test_034_a_limit_of_the_graph_is_the_limit_for_its_crawls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "MOST_CRAWLS", 2)
    play = Play(Workflow(max_parallel=3).add_many("sites", [crawl("books")] * 4))
    assert len(play.advance().starts) == 3


def test_035_dependents_of_a_failure_are_cancelled_and_never_start() -> None:
    workflow = Workflow().add("a", plain).add("b", plain, deps="a").add("c", plain, deps="b").add("d", plain)
    play = Play(workflow)
    assert play.run(fails={"a": [None]}) is FlowState.DISCARDED
    assert play.states == {"a": "discarded", "b": "cancelled", "c": "cancelled", "d": "completed"}
    assert (play.row("b").reason, play.row("c").reason) == ("dependency:a", "dependency:b")
    assert play.row("b").started_at is None
    assert play.row("c").attempt == 0


def test_036_flags_concern_direct_dependencies_and_the_job_goes_first() -> None:
    sub = Workflow().add("x", plain).add("y", plain, deps="x")
    workflow = Workflow(ignore_discarded=True)
    workflow.add("a", plain).add("b", plain, deps="a").add("strict", plain, deps="a", ignore_discarded=False)
    workflow.add_many("many", [plain], deps="a").add_workflow("sub", sub, deps="b")
    play = Play(workflow)
    play.run(fails={"a": [None], "sub/x": [None]})
    assert play.states == {
        "a": "discarded",
        "b": "completed",
        "strict": "cancelled",
        "many/0": "completed",
        "sub/x": "discarded",
        "sub/y": "cancelled",
    }


def test_037_discarded_does_not_cover_cancelled() -> None:
    workflow = Workflow().add("a", plain).add("b", plain, deps="a")
    workflow.add("only_discarded", plain, deps="b", ignore_discarded=True)
    workflow.add("cancelled_too", plain, deps="b", ignore_cancelled=True)
    play = Play(workflow)
    play.run(fails={"a": [None]})
    assert play.states["only_discarded"] == "cancelled"
    assert play.states["cancelled_too"] == "completed"


def test_038_a_failed_attempt_is_repeated_after_growing_pauses() -> None:
    play = Play(Workflow().add("a", plain, retry=RetryPolicy(max_attempts=3, pause_seconds=10)))
    play.advance()
    play.end("a", FAILED, reason="ValueError")
    assert play.row("a").state is MemberState.RETRYABLE
    assert play.advance().wake_at == NOW + timedelta(seconds=10)
    play.later(seconds=10)
    play.advance()
    assert play.row("a").attempt == 2
    play.end("a", FAILED)
    assert play.row("a").due == play.now + timedelta(seconds=20)
    play.later(seconds=20)
    play.advance()
    play.end("a", FAILED)
    assert play.row("a").state is MemberState.DISCARDED
    assert play.advance().flow_state is FlowState.DISCARDED


def test_038_rules_by_outcome() -> None:
    policy = RetryPolicy(
        max_attempts=2,
        pause_seconds=10,
        rules=(
            RetryRule(outcomes=("banned",), max_attempts=3, pause_seconds=3600, arguments={"slow": "1"}),
            RetryRule(outcomes=("killed by oom",), memory_factor=2.0),
            RetryRule(outcomes=("bad request",), max_attempts=1),
        ),
    )
    play = Play(Workflow().add("a", crawl("books"), retry=policy))
    play.advance()
    play.end("a", FAILED, outcome="banned")
    play.advance()
    assert play.row("a").due == NOW + timedelta(hours=1)
    play.later(hours=1)
    (start,) = play.advance().starts
    assert start.rule == policy.rules[0]
    play.end("a", FAILED, outcome="killed by oom")
    play.advance()
    assert play.row("a").state is MemberState.RETRYABLE
    play.later(hours=1)
    (start,) = play.advance().starts
    assert (start.attempt, start.rule) == (3, policy.rules[1])
    play.end("a", FAILED, outcome="bad request")
    play.advance()
    assert play.row("a").state is MemberState.DISCARDED


def test_038_a_rule_with_its_own_number_gives_up_after_it() -> None:
    policy = RetryPolicy(max_attempts=1, rules=(RetryRule(outcomes=("banned",), max_attempts=3),))
    play = Play(Workflow().add("a", plain, retry=policy))
    assert play.run(fails={"a": ["banned", "banned", "banned"]}) is FlowState.DISCARDED
    assert play.row("a").attempt == 3


@pytest.mark.parametrize(
    ("status", "outcome", "state"),
    [
        (RunStatus.COMPLETED, "banned", "retryable"),
        (RunStatus.FAILED, "banned", "retryable"),
        (RunStatus.FAILED, "killed by oom", "discarded"),
        (RunStatus.FAILED, "failed", "discarded"),
        (RunStatus.COMPLETED, "no items", "completed"),
        (RunStatus.COMPLETED, "finished", "completed"),
    ],
)
def test_038_a_crawls_own_word_is_for_rules(status: RunStatus, outcome: str, state: str) -> None:
    """A rule for `banned` had no effect, since the run of a banned crawl may be completed."""
    policy = RetryPolicy(rules=(RetryRule(outcomes=("banned", "finished"), max_attempts=2, pause_seconds=60),))
    play = Play(Workflow().add("a", crawl("books"), retry=policy, when="archived"))
    play.advance()
    play.observe(RunSeen(0, 1, status, 1, NOW, "why", outcome, archived=state == "completed"))
    play.advance()
    assert (play.row("a").state, play.row("a").outcome) == (state, outcome)


def test_038_a_rule_gives_up_after_a_completed_run_with_its_word() -> None:
    policy = RetryPolicy(rules=(RetryRule(outcomes=("banned",), max_attempts=2, pause_seconds=0),))
    play = Play(Workflow(ignore_discarded=True).add("a", crawl("books"), retry=policy).add("b", plain, deps="a"))
    for attempt in (1, 2):
        play.advance()
        play.observe(RunSeen(0, attempt, RunStatus.COMPLETED, attempt, play.now, "all_succeeded", "banned"))
    play.advance()
    assert (play.row("a").state, play.row("a").reason) == (MemberState.DISCARDED, "outcome:banned")
    assert play.row("b").state is MemberState.EXECUTING


def test_038_memory_grows_from_attempt_to_attempt_up_to_a_limit() -> None:
    work = crawl("books", memory_factor=2).work
    oom, banned = RetryRule(outcomes=("oom",), memory_factor=3), RetryRule(outcomes=("banned",))
    assert memory_after(None, work, None) is None
    assert memory_after(oom, work, None) == 6
    assert memory_after(banned, work, 6) == 6
    assert memory_after(oom, work, 6) == 16
    assert memory_after(oom, Workflow().add("a", plain).definition().members[0].work, None) is None
    assert run_request(work, None, None).memory_factor == 2
    assert run_request(work, None, None, 6).memory_factor == 6


def test_038_a_step_may_cancel_itself_and_an_unusable_result_is_not_tried_again() -> None:
    play = Play(Workflow().add_cascade("a", cancel_itself, retries=5))
    assert play.run(call=True) is FlowState.CANCELLED
    assert play.row("a").reason == "nothing to do"
    other = Play(Workflow().add("a", plain, retries=5))
    other.advance()
    other.end("a", FAILED, reason=RESULT_UNUSABLE)
    assert other.row("a").state is MemberState.DISCARDED


def test_038_a_snoozed_attempt_does_not_count() -> None:
    play = Play(Workflow().add("a", plain, retry=RetryPolicy(max_attempts=2, pause_seconds=7)))
    for number in (1, 2, 3):
        play.advance()
        play.end("a", EndKind.SNOOZED, reason=snoozed(90.5))
        row = play.row("a")
        assert (row.attempt, row.tries, row.state, row.cause) == (number, 0, MemberState.RETRYABLE, "snoozed")
        assert why(Planner(play.ledger), row.number).cause == "snoozed"
        assert play.advance().wake_at == play.now + timedelta(seconds=90.5)
        play.rebuild()  # a new supervisor keeps the pause
        assert not play.advance().starts
        play.later(seconds=90.5)
    play.advance()
    play.end("a", FAILED)
    assert play.row("a").due == play.now + timedelta(seconds=7)
    play.later(seconds=7)
    play.advance()
    play.end("a", FAILED)
    assert (play.row("a").attempt, play.row("a").state) == (5, MemberState.DISCARDED)


def test_038_a_snoozed_job_is_retried_now_or_cancelled() -> None:
    play = Play(Workflow().add("a", plain).add("b", plain, deps="a"))
    play.advance()
    play.end("a", EndKind.SNOOZED, reason=snoozed(3600))
    assert play.retry("a") == 1
    assert [start.attempt for start in play.advance().starts] == [2]
    play.end("a", EndKind.SNOOZED, reason=snoozed(3600))
    assert play.cancel("a") == 1
    play.advance()
    assert play.states == {"a": "cancelled", "b": "cancelled"}


def test_038_a_retry_respects_a_dependency_that_is_open_again() -> None:
    workflow = Workflow().add("a", plain).add("b", plain, deps="a", retry=RetryPolicy(max_attempts=2, pause_seconds=60))
    play = Play(workflow)
    play.advance()
    play.end("a")
    play.advance()
    play.end("b", FAILED)
    play.retry("a", completed=True)
    play.later(seconds=60)
    play.advance()
    assert play.states == {"a": "executing", "b": "suspended"}
    play.end("a")
    play.advance()
    assert (play.row("b").state, play.row("b").attempt) == (MemberState.EXECUTING, 2)


def test_040_a_start_time_and_dependencies_are_both_waited_for() -> None:
    workflow = Workflow().add("a", plain).add("b", plain, deps="a", scheduled_at=NOW + timedelta(hours=1))
    workflow.add("c", plain, deps="a", scheduled_at=NOW - timedelta(hours=1))
    play = Play(workflow)
    play.advance()
    play.end("a")
    assert play.advance().wake_at == NOW + timedelta(hours=1)
    assert play.states == {"a": "completed", "b": "scheduled", "c": "executing"}
    play.later(hours=1)
    play.advance()
    assert play.states["b"] == "executing"


def seen(play: Play, status: RunStatus, end: int = 1, **details: object) -> RunSeen:
    row = play.row("crawl")
    return RunSeen(row.number, row.attempt, status, end, play.now, **details)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "reason", "state"),
    [
        (RunStatus.COMPLETED, "all_succeeded", "completed"),
        (RunStatus.COMPLETED, "failures_allowed", "completed"),
        (RunStatus.FAILED, "stopped", "cancelled"),
        (RunStatus.FAILED, "stopped_forced", "cancelled"),
        (RunStatus.FAILED, "max_duration", "discarded"),
        (RunStatus.FAILED, "never_started", "discarded"),
        (RunStatus.FAILED, "tasks_lost", "discarded"),
    ],
)
def test_041_the_end_of_a_run_is_the_end_of_its_crawl(status: RunStatus, reason: str, state: str) -> None:
    play = Play(Workflow().add("crawl", crawl("books")).add("after", plain, deps="crawl"))
    play.advance()
    play.planner.observe(seen(play, RunStatus.PROCESSING))
    assert play.advance().is_empty
    play.planner.observe(seen(play, status, reason=reason))
    play.planner.observe(seen(play, status, reason=reason))
    play.advance()
    assert play.states["crawl"] == state


def test_041_a_reopened_run_makes_its_crawl_executing_again() -> None:
    play = Play(Workflow().add("crawl", crawl("books")).add("after", plain, deps="crawl"))
    play.advance()
    play.planner.observe(seen(play, RunStatus.FAILED, reason="tasks_failed"))
    assert play.advance().flow_state is FlowState.DISCARDED
    play.planner.observe(seen(play, RunStatus.PROCESSING, end=2))
    assert play.advance().flow_state is FlowState.EXECUTING
    assert play.states == {"crawl": "executing", "after": "suspended"}
    play.planner.observe(seen(play, RunStatus.FAILED, end=1, reason="tasks_failed"))
    assert play.advance().is_empty
    play.planner.observe(seen(play, RunStatus.COMPLETED, end=2))
    play.advance()
    assert play.states == {"crawl": "completed", "after": "executing"}
    assert play.row("crawl").attempt == 1


def test_041_a_dependent_that_has_started_goes_on_when_the_run_is_reopened() -> None:
    play = Play(Workflow().add("crawl", crawl("books")).add("after", plain, deps="crawl"))
    play.advance()
    play.end("crawl")
    play.advance()
    play.planner.observe(seen(play, RunStatus.PROCESSING, end=2))
    play.advance()
    assert play.states == {"crawl": "executing", "after": "executing"}


def test_041_a_retry_replaces_an_attempt_and_its_run_may_be_reopened_in_vain() -> None:
    play = Play(Workflow().add("crawl", crawl("books")))
    play.advance()
    play.end("crawl", FAILED)
    play.advance()
    old = seen(play, RunStatus.PROCESSING, end=2)
    play.retry()
    play.advance()
    play.planner.observe(old)
    assert play.advance().is_empty
    assert play.row("crawl").attempt == 2


def test_041_a_reopened_run_of_an_earlier_generation_is_no_attempt_any_more() -> None:
    play = Play(Workflow().add("crawl", crawl("books")))
    play.advance()
    play.end("crawl", FAILED)
    play.advance()
    play.retry()
    play.hold(FlowIntent.PAUSE)
    play.planner.observe(seen(play, RunStatus.PROCESSING, end=2))
    play.advance()
    assert (play.row("crawl").state, play.row("crawl").in_flight) == (MemberState.AVAILABLE, False)


def test_041_dependents_may_wait_for_the_archive() -> None:
    play = Play(Workflow().add("crawl", crawl("books"), when="archived").add("after", plain, deps="crawl"))
    play.advance()
    play.planner.observe(seen(play, RunStatus.COMPLETED))
    play.advance()
    assert (play.row("crawl").state, play.row("crawl").cause) == (MemberState.EXECUTING, "archive")
    play.planner.observe(seen(play, RunStatus.COMPLETED, archived=True))
    play.advance()
    assert play.states == {"crawl": "completed", "after": "executing"}


def test_041_a_start_that_is_refused_discards_the_crawl() -> None:
    play = Play(Workflow().add("crawl", crawl("unknown"), retries=5))
    play.advance()
    row = play.row("crawl")
    play.planner.observe(AttemptEnd(row.number, row.attempt, FAILED, NOW, reason="start_refused"))
    play.advance()
    assert play.states == {"crawl": "discarded"}


def test_observations_of_other_attempts_and_unknown_jobs_change_nothing() -> None:
    play = Play(Workflow().add("a", plain, retries=1).add("crawl", crawl("books")))
    play.advance()
    play.planner.observe(AttemptEnd(0, 7, COMPLETED, NOW))
    play.planner.observe(AttemptEnd(99, 1, COMPLETED, NOW))
    play.planner.observe(RunSeen(1, 2, RunStatus.COMPLETED, 1, NOW))
    assert play.advance().is_empty


def test_a_planner_from_the_rows_goes_on_where_the_former_stood() -> None:
    workflow = Workflow().add("a", plain).add_many("m", [plain] * 3, deps="a", max_parallel=2)
    play = Play(workflow.add("z", plain, deps="m"))
    for path in ("a", "m/0"):
        play.advance()
        play.end(path)
    play.advance()
    play.planner = Planner(play.ledger)
    assert play.planner.in_flight == {play.row("m/1").number, play.row("m/2").number}
    assert play.advance().is_empty
    play.end("m/1")
    play.end("m/2", CANCELLED)
    play.advance()
    assert play.states["z"] == "cancelled"


def test_starts_may_be_limited_in_a_plan() -> None:
    play = Play(Workflow().add_many("m", [plain] * 5))
    first = play.planner.advance(NOW, most_starts=2)
    second = play.planner.advance(NOW, most_starts=2)
    assert [start.number for start in (*first.starts, *second.starts)] == [0, 1, 2, 3]
