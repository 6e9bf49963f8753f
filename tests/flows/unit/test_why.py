"""Explanations: `why` says what a job waits for, down to the job that blocks it."""

from datetime import timedelta

from crawler_lifecycle.flows import Workflow, any_of, crawl
from crawler_lifecycle.flows.model.records import Why
from crawler_lifecycle.flows.rules.explanation import MOST_BLOCKERS, MOST_LINES, why
from crawler_lifecycle.model.flow_states import FlowIntent
from tests.flows.plays import FAILED, NOW, Play
from tests.kit.authors.work import UserNotifier, plain


def explain(play: Play, path: str) -> Why:
    return why(play.planner, play.row(path).number)


def chain_of(explanation: Why) -> list[tuple[str, str | None]]:
    """Return the first blocker of every level with its cause."""
    lines = [(explanation.path, explanation.cause)]
    while explanation.because:
        explanation = explanation.because[0]
        lines.append((explanation.path, explanation.cause))
    return lines


def test_a_waiting_job_names_what_blocks_it() -> None:
    sub = Workflow().add("x", crawl("books")).add("y", plain, deps="x")
    workflow = Workflow().add_workflow("sub", sub).add("load", plain, deps="sub").add("z", plain, deps="load")
    play = Play(workflow)
    play.advance()
    assert chain_of(explain(play, "z")) == [
        ("z", "dependencies"),
        ("load", "dependencies"),
        ("sub/x", "executing"),
    ]
    assert [inner.path for inner in explain(play, "load").because] == ["sub/x", "sub/y"]


def test_a_cancelled_job_names_the_failure() -> None:
    workflow = Workflow().add("a", plain).add_many("m", [plain], deps="a").add("z", plain, deps="m")
    play = Play(workflow)
    play.advance()
    play.end("a", FAILED, reason="ValueError")
    play.advance()
    assert chain_of(explain(play, "z")) == [("z", "dependency:m"), ("m/0", "dependency:a"), ("a", "ValueError")]


def test_causes_of_available_jobs() -> None:
    workflow = Workflow(max_parallel=3).add_many("m", [plain] * 3, max_parallel=1)
    workflow.add("b", plain).add("c", plain).add("d", plain)
    play = Play(workflow)
    play.advance()
    assert explain(play, "m/1").cause == "parallel_limit:m"
    assert explain(play, "d").cause == "parallel_limit"
    assert explain(play, "b").cause == "executing"
    play.cancel("b")
    play.retry("b")
    assert explain(play, "b").cause == "settling"
    play.hold(FlowIntent.PAUSE)
    assert explain(play, "d").cause == "paused"
    play.hold(FlowIntent.DRAIN)
    assert explain(play, "d").cause == "draining"


def test_a_job_that_only_waits_for_its_host_says_so() -> None:
    play = Play(Workflow().add("a", plain).add("b", plain).add("c", crawl("books")))
    play.write(play.planner.advance(NOW, most_starts=1))
    assert explain(play, "b").cause == f"host:{plain.__module__}"
    assert explain(play, "c").cause == "start"


def test_times_and_people() -> None:
    workflow = Workflow().add("later", plain, schedule_in=60).add_approval("ok", timeout=3600)
    workflow.add("again", plain, retries=1)
    play = Play(workflow)
    play.advance()
    play.end("again", FAILED)
    play.advance()
    assert (explain(play, "later").cause, explain(play, "later").until) == ("time", NOW + timedelta(minutes=1))
    assert (explain(play, "ok").cause, explain(play, "ok").until) == ("approval", NOW + timedelta(hours=1))
    assert (explain(play, "again").cause, explain(play, "again").until) == ("retry_pause", NOW + timedelta(seconds=10))


def test_a_quorum_and_a_graft_are_looked_through() -> None:
    workflow = Workflow().add("a", plain).add_graft("g", UserNotifier.new({"account_id": 1}), deps="a")
    play = Play(workflow.add("z", plain, deps=any_of(["g", "a"], at_least=2)).add("y", plain, deps="g"))
    play.advance()
    assert chain_of(explain(play, "z")) == [("z", "dependencies"), ("a", "executing")]
    assert chain_of(explain(play, "y")) == [("y", "dependencies"), ("g", "dependencies"), ("a", "executing")]


def test_an_explanation_stays_short() -> None:
    workflow = Workflow().add_many("m", [plain] * 1_000).add("z", plain, deps="m")
    play = Play(workflow)
    play.advance()
    explanation = explain(play, "z")
    assert (len(explanation.because), explanation.more) == (MOST_BLOCKERS, 1_000 - MOST_BLOCKERS)
    deep = Workflow().add("0", plain)
    for number in range(1, 1_000):
        deep.add(str(number), plain, deps=str(number - 1))
    long = Play(deep)
    long.advance()
    lines = chain_of(explain(long, "999"))
    assert MOST_LINES - 1 <= len(lines) <= MOST_LINES + 1


def test_a_job_whose_dependencies_have_ended_waits_for_a_worker() -> None:
    sub = Workflow().add("x", plain)
    workflow = Workflow().add("a", plain).add_workflow("sub", sub, deps="a").add_approval("release", deps="a")
    play = Play(workflow)
    play.advance()
    play.end("a")
    assert chain_of(explain(play, "sub/x")) == [("sub/x", "no_supervisor")]
    play.advance()
    assert (explain(play, "sub/x").cause, explain(play, "release").cause) == ("executing", "approval")
    play.approve("release")
    assert explain(play, "release").cause == "no_supervisor"
