"""Quorums: some of the jobs are enough."""

from typing import Any

import pytest

from crawler_lifecycle.flows import Workflow, any_of
from crawler_lifecycle.flows.authors.building import fragment_of
from crawler_lifecycle.flows.model.requests import AppendMembers
from crawler_lifecycle.model.flow_states import FlowState
from tests.flows.plays import FAILED, Play
from tests.kit.authors.work import UserNotifier, plain


def sites(number: int, at_least: float, **options: Any) -> Play:
    wait = options.pop("wait", False)
    workflow = Workflow().add_many("sites", [plain] * number)
    workflow.add("merge", plain, deps=any_of("sites", at_least=at_least, wait=wait), **options)
    play = Play(workflow)
    play.advance()
    return play


@pytest.mark.parametrize(
    ("number", "at_least", "enough"), [(10, 0.9, 9), (10, 0.7, 7), (3, 0.5, 2), (3, 1.0, 3), (5, 2, 2)]
)
def test_a_quorum_starts_its_dependent_as_soon_as_enough_are_completed(
    number: int, at_least: float, enough: int
) -> None:
    play = sites(number, at_least)
    for site in range(enough):
        assert play.states["merge"] == "suspended"
        play.end(f"sites/{site}")
        play.advance()
    assert play.states["merge"] == "executing"


def test_a_quorum_that_cannot_be_reached_cancels_its_dependent_at_once() -> None:
    play = sites(10, 0.9)
    play.end("sites/0", FAILED)
    play.advance()
    assert play.states["merge"] == "suspended"
    play.end("sites/1", FAILED)
    play.advance()
    assert (play.states["merge"], play.row("merge").reason) == ("cancelled", "dependency:any_of(sites)")
    assert play.row("sites/2").state == "executing"


def test_ignored_failures_count_for_a_quorum() -> None:
    play = sites(2, 1.0, ignore_discarded=True)
    play.end("sites/0", FAILED)
    play.end("sites/1")
    play.advance()
    assert play.states["merge"] == "executing"


def test_a_quorum_may_wait_for_all_ends() -> None:
    play = sites(3, 0.5, wait=True)
    for site, kind in enumerate(("completed", "completed")):
        assert kind == "completed"
        play.end(f"sites/{site}")
    play.advance()
    assert play.states["merge"] == "suspended"
    play.end("sites/2", FAILED)
    play.advance()
    assert play.states["merge"] == "executing"


def test_a_quorum_over_several_names_counts_a_group_with_all_its_jobs() -> None:
    workflow = Workflow().add("a", plain).add_many("m", [plain, plain])
    play = Play(workflow.add("z", plain, deps=any_of(["a", "m"], at_least=2)))
    play.advance()
    play.end("m/0")
    play.end("a")
    play.advance()
    assert play.states["z"] == "executing"


def test_a_share_of_a_graft_is_known_when_its_grafter_has_ended() -> None:
    workflow = Workflow().add("a", plain).add_graft("g", UserNotifier.new({"account_id": 3}))
    play = Play(workflow.add("z", plain, deps=any_of(["a", "g"], at_least=0.25)))
    play.advance()
    play.end("a")
    play.advance()
    assert play.states["z"] == "suspended"
    assert play.run(call=True) is FlowState.COMPLETED
    assert play.order[-1] in ("z", "g/2")


def test_a_retry_may_still_reach_a_quorum() -> None:
    play = sites(2, 2)
    play.end("sites/0", FAILED)
    play.end("sites/1")
    assert play.run() is FlowState.DISCARDED
    assert play.retry("sites/0") == 1
    assert play.run() is FlowState.COMPLETED


def test_jobs_with_the_same_quorum_share_its_count() -> None:
    workflow = Workflow().add_many("sites", [plain] * 100)
    for number in range(100):
        workflow.add(f"after{number}", plain, deps=any_of("sites", at_least=0.5))
    play = Play(workflow)
    first = play.planner.node(play.row("after0").number)
    last = play.planner.node(play.row("after99").number)
    assert first.inputs == last.inputs
    assert play.run() is FlowState.COMPLETED


def test_an_empty_group_satisfies_a_share_and_no_number() -> None:
    workflow = Workflow().add_many("none", []).add("share", plain, deps=any_of("none", at_least=0.5))
    play = Play(workflow.add("number", plain, deps=any_of("none", at_least=1)))
    play.run()
    assert play.states == {"share": "completed", "number": "cancelled"}


def test_a_group_may_have_a_quorum_on_a_graft_that_comes_later() -> None:
    workflow = Workflow(check_deps=False).add_many("m", [plain], deps=any_of(["a", "g"], at_least=0.25))
    play = Play(workflow.add("a", plain).add_graft("g", UserNotifier.new({"account_id": 3})))
    play.advance()
    play.end("a")
    play.advance()
    play.call("g")
    play.advance()
    assert play.states["m/0"] == "executing"


def test_a_job_that_is_named_twice_counts_once() -> None:
    inner = Workflow().add_many("deep", [plain, plain])
    workflow = Workflow().add_workflow("sub", inner).add("a", plain)
    quorum = any_of(["sub", "sub/deep", "sub/deep/0", "a"], at_least=3)
    play = Play(workflow.add("z", plain, deps=quorum))
    play.advance()
    for path in ("sub/deep/0", "sub/deep/1"):
        play.end(path)
        play.advance()
    assert play.states["z"] == "suspended"
    play.end("a")
    play.advance()
    assert play.states["z"] == "executing"


def test_a_job_that_joins_later_counts_once() -> None:
    inner = Workflow().add_many("deep", [plain])
    workflow = Workflow().add_workflow("sub", inner)
    play = Play(workflow.add("z", plain, deps=any_of(["sub", "sub/deep"], at_least=2)))
    play.advance()
    play.append(AppendMembers(key="k", group="sub/deep", fragment=fragment_of(Workflow().add("1", plain))))
    play.end("sub/deep/0")
    play.advance()
    assert play.states["z"] == "suspended"
    play.end("sub/deep/1")
    play.advance()
    assert play.states["z"] == "executing"
