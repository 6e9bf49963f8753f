"""`why` stopped at a fan-out over a crawl's tasks before the tasks were known: it did not name the crawl.

The fan-out was `completed: no jobs`, and a job behind it was `suspended: dependencies` with nothing below.
"""

import pytest

from crawler_lifecycle.flows import Workflow, crawl, each_task
from crawler_lifecycle.flows.commands.members import explained_at
from crawler_lifecycle.flows.model.records import Why
from tests.flows.plays import FAILED, Play
from tests.kit.authors.work import item_and_context, plain

pytestmark = pytest.mark.regression(
    "`why` stopped at a fan-out over a crawl's tasks before the tasks were known: it did not name the crawl"
)


def fan_out() -> Play:
    workflow = Workflow(id="w").add("shop", crawl("books"))
    workflow.add_cascade("each", each_task("shop", item_and_context))
    workflow.add_workflow(
        "outer", Workflow().add("shop", crawl("books")).add_cascade("each", each_task("shop", item_and_context))
    )
    workflow.add("end", plain, deps="each").add("last", plain, deps="outer/each")
    return Play(workflow)


def blockers(play: Play, path: str) -> tuple[str, str | None, list[tuple[str, str]]]:
    explanation: Why = explained_at(play.ledger, path, play.now)
    return explanation.state, explanation.cause, [(inner.path, inner.state) for inner in explanation.because]


def test_a_job_behind_the_fan_out_names_the_crawl() -> None:
    play = fan_out()
    play.advance()
    assert blockers(play, "end") == ("suspended", "dependencies", [("shop", "executing")])
    assert blockers(play, "last") == ("suspended", "dependencies", [("outer/shop", "executing")])


def test_the_fan_out_names_the_crawl() -> None:
    play = fan_out()
    play.advance()
    assert blockers(play, "each") == ("executing", "no jobs yet", [("shop", "executing")])


def test_after_a_failure_both_name_the_crawl() -> None:
    play = fan_out()
    play.advance()
    play.end("shop", FAILED, reason="no tasks")
    play.advance()
    assert blockers(play, "each")[1:] == ("no jobs", [("shop", "discarded")])
    assert blockers(play, "end") == ("cancelled", "dependency:each", [("shop", "discarded")])
