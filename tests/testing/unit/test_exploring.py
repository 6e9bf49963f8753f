"""The kit plays all outcomes of a workflow, and tells what a limit leaves out."""

from pathlib import Path

import pytest

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows import Workflow, any_of, crawl
from crawler_lifecycle.testing import Outcome, Result, Surprise, assert_valid, completed, explore
from tests.kit.authors.steps import note

CATALOGUE = Path(__file__).parents[3] / "examples" / "catalogue.toml"


def chain() -> Workflow:
    return Workflow().add("shop", crawl("bookshop")).add("parse", note, deps="shop").add("load", note, deps="parse")


def test_all_outcomes_of_a_chain_are_played_once() -> None:
    plays: list[dict[str, str]] = []
    explored = explore(chain(), lambda result: plays.append(result.states))
    assert (explored.plays, explored.is_complete) == (7, True)  # a success, and two failures of each job
    assert len({tuple(states.items()) for states in plays}) == 7
    assert explored.ends == {"completed": 1, "discarded": 3, "cancelled": 3}
    assert str(explored) == "all 7 plays: 1 completed, 3 discarded, 3 cancelled"


def test_independent_failures_are_combined() -> None:
    workflow = Workflow().add("a", note).add("b", note).add_approval("c")
    explored = explore(workflow)
    assert (explored.plays, explored.most_failures) == (3 * 3 * 2, 3)
    assert explore(workflow, outcomes=[Outcome.DISCARDED]).plays == 2 * 2 * 2


def test_a_limit_is_told() -> None:
    workflow = Workflow().add_many("many", [note] * 20)
    explored = explore(workflow, most_plays=100)
    assert (explored.plays, explored.most_failures, explored.is_complete) == (100, 1, False)
    assert "at least" in str(explored)
    assert "all combinations of up to 1 failures were played" in str(explored)


def test_a_refused_end_names_the_failures() -> None:
    workflow = chain().add("tell", note, deps="load", ignore_discarded=True)

    def is_told(result: Result) -> None:
        assert result.states["tell"] == "completed"

    with pytest.raises(Surprise, match=r"^shop discarded: ") as caught:
        explore(workflow, is_told)
    assert caught.value.outcomes == {"shop": Outcome.DISCARDED}
    assert isinstance(caught.value.__cause__, AssertionError)


def test_quorums_hold_in_all_plays() -> None:
    workflow = Workflow().add_many("sites", {site: crawl(site) for site in "abc"})
    workflow.add("merge", note, deps=any_of("sites", at_least=2))

    def has_merged(result: Result) -> None:
        enough = sum(result.states[f"sites/{site}"] == "completed" for site in "abc") >= 2
        assert (result.states["merge"] == "completed") is (enough and "merge" not in result.reasons)

    assert explore(workflow, has_merged).is_complete


def test_a_success_for_an_unknown_job_is_refused() -> None:
    workflow = Workflow().add("shop", crawl("bookshop")).add_approval("release", deps="shop")
    assert explore(workflow, crawls={"shop": completed(items=1), "bookshop": completed()}).is_complete
    with pytest.raises(BadInput, match="crawls: the flow has no crawl 'shp'; did you mean 'shop'"):
        explore(workflow, crawls={"shp": completed(items=1)})
    with pytest.raises(BadInput, match="results: the flow has no step 'shop'"):
        explore(workflow, results={"shop": 1})


def test_a_valid_workflow_has_known_functions_and_crawlers() -> None:
    assert_valid(chain(), catalogue=CATALOGUE)
    with pytest.raises(AssertionError, match="has no crawler 'bokshop'"):
        assert_valid(Workflow().add("shop", crawl("bokshop")), catalogue=CATALOGUE)
    with pytest.raises(AssertionError, match="cycle"):
        assert_valid(Workflow(check_deps=False).add("a", note, deps="b").add("b", note, deps="a"))
