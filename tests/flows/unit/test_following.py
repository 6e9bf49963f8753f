"""Followers: which steps a host may start by itself after a step, and which steps wait for the supervisor."""

from typing import Any

import pytest

from crawler_lifecycle.flows import Workflow, any_of, crawl
from crawler_lifecycle.flows.rules import slicing
from crawler_lifecycle.flows.rules.ends import RunSeen
from crawler_lifecycle.flows.rules.slicing import MOST_AT_ONCE, MOST_FOLLOWERS, followers
from crawler_lifecycle.model.flow_states import MemberState
from crawler_lifecycle.model.states import RunStatus
from tests.flows.plays import FAILED, Play
from tests.hosts import authors
from tests.kit.authors.work import SlowWorker, graft_function, plain


def following(play: Play, path: str = "a") -> dict[str, list[str]]:
    """The followers of the job under way by their paths, with the jobs before them. `!`: others wait for its end."""
    names = {number: row.path for number, row in play.planner.rows.items()}
    return {
        names[item.start.number] + "!" * item.is_awaited: [names[number] for number in item.after]
        for item in followers(play.planner, play.row(path).number)
    }


def started(workflow: Workflow) -> Play:
    play = Play(workflow)
    play.advance()
    return play


def chain(length: int, **options: Any) -> Workflow:
    workflow = Workflow(**options).add("a", plain)
    for number in range(1, length):
        workflow.add(f"s{number}", plain, deps=f"s{number - 1}" if number > 1 else "a")
    return workflow


def test_a_chain_follows() -> None:
    assert following(started(chain(4))) == {"s1": ["a"], "s2": ["s1"], "s3": ["s2"]}


def test_a_diamond_follows_to_its_end() -> None:
    diamond = Workflow().add("a", plain).add("left", plain, deps="a").add("right", plain, deps="a")
    assert following(started(diamond.add("end", plain, deps=["left", "right"]))) == {
        "left": ["a"],
        "right": ["a"],
        "end": ["left", "right"],
    }


def test_a_follower_has_the_next_attempt_of_its_generation() -> None:
    play = started(chain(2))
    [item] = followers(play.planner, play.row("a").number)
    assert (item.start.number, item.start.generation, item.start.attempt) == (play.row("s1").number, 1, 1)


def test_a_long_chain_follows_in_parts() -> None:
    chosen = following(started(chain(MOST_FOLLOWERS + 10)))
    assert len(chosen) == MOST_FOLLOWERS
    assert list(chosen)[-1] == f"s{MOST_FOLLOWERS}!"


def test_followers_with_long_routes_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    play = started(chain(6))
    monkeypatch.setattr(slicing, "MOST_CHARACTERS", 3 * len(play.row("a").route))
    assert following(play) == {"s1": ["a"], "s2": ["s1"], "s3!": ["s2"]}


def test_a_wide_step_leaves_its_dependents_to_all_hosts() -> None:
    workflow = Workflow().add("a", plain)
    for number in range(MOST_AT_ONCE + 1):
        workflow.add(f"b{number}", plain, deps="a")
    assert following(started(workflow)) == {}


def test_a_step_before_a_dependent_for_the_supervisor_has_no_follower() -> None:
    """Otherwise the crawl's start would wait for the follower's end."""
    play = started(chain(3).add("shop", crawl("books"), deps="s1"))
    assert following(play) == {"s1!": ["a"]}


@pytest.mark.parametrize(
    "workflow",
    [
        Workflow().add("a", plain).add("b", crawl("books"), deps="a"),
        Workflow().add("a", plain).add("b", SlowWorker.new({}), deps="a"),
        Workflow().add("a", plain).add("b", authors.nothing, deps="a"),
        Workflow().add("a", plain).add("b", plain, deps="a", schedule_in=60),
        Workflow().add("a", plain).add_approval("b", deps="a"),
        Workflow().add("a", plain).add_many("b", [plain, plain], deps="a"),
        Workflow().add("a", plain).add_workflow("b", Workflow().add("c", plain), deps="a"),
        Workflow().add_graft("a", graft_function).add("b", plain, deps="a"),
        Workflow().add("a", plain).add("x", plain).add("b", plain, deps=[any_of(["a", "x"], at_least=1)]),
        Workflow().add("a", plain).add("x", plain).add("b", plain, deps=["a", "x"]),
        chain(3, max_parallel=2),
    ],
    ids=[
        "crawl",
        "queue",
        "module",
        "delay",
        "approval",
        "fan-out",
        "sub-workflow",
        "graft",
        "quorum",
        "open",
        "limit",
    ],
)
def test_these_wait_for_the_supervisor(workflow: Workflow) -> None:
    play = started(workflow)
    assert play.row("a").in_flight
    assert following(play) == {}


def test_a_dependency_that_ended_for_good_holds_no_follower_back() -> None:
    play = started(Workflow().add("x", plain).add("a", plain).add("b", plain, deps=["a", "x"]))
    play.end("x")
    play.advance()
    assert following(play) == {"b": ["a"]}


def test_a_run_may_be_reopened_so_nobody_follows_beside_a_crawl() -> None:
    play = started(Workflow().add("x", crawl("books")).add("a", plain).add("b", plain, deps=["a", "x"]))
    play.end("x")
    play.advance()
    assert following(play) == {}


def test_a_reopened_run_reopens_cancelled_members_so_nobody_follows_beside_these() -> None:
    workflow = Workflow().add("y", crawl("books"), max_attempts=1).add("x", plain, deps="y").add("a", plain)
    play = started(workflow.add("b", plain, deps=["a", "x"], ignore_cancelled=True))
    play.end("y", FAILED)
    play.advance()
    assert play.row("x").is_cancelled_by_dependency
    assert following(play) == {}
    crawled = play.row("y")
    play.observe(RunSeen(crawled.number, crawled.attempt, RunStatus.PROCESSING, crawled.end + 1, play.now, None))
    play.advance()
    assert play.row("x").state is MemberState.SUSPENDED


def test_a_wide_fan_in_is_not_searched_while_many_dependencies_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    workflow = Workflow()
    for number in range(100):
        workflow.add(f"a{number}", plain)
    play = started(workflow.add("z", plain, deps=[f"a{number}" for number in range(100)]))
    monkeypatch.setattr(slicing, "_is_certain", None)  # each call fails
    assert following(play, "a7") == {}


def test_a_failed_dependency_lets_only_those_follow_that_ignore_it() -> None:
    workflow = Workflow().add("x", plain, max_attempts=1).add("a", plain)
    workflow.add("b", plain, deps=["a", "x"]).add("c", plain, deps=["a", "x"], ignore_discarded=True)
    play = started(workflow)
    play.end("x", FAILED)
    play.advance()
    assert play.row("b").state.is_final
    assert following(play) == {}  # b's cancellation is a dependent's, too
    workflow = Workflow().add("x", plain, max_attempts=1).add("a", plain)
    play = started(workflow.add("c", plain, deps=["a", "x"], ignore_discarded=True))
    play.end("x", FAILED)
    play.advance()
    assert following(play) == {"c": ["a"]}
