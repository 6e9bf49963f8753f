import io

import pytest

from crawler_lifecycle.flows import Workflow, crawl, each_task, generate_dot
from crawler_lifecycle.flows.authors.steps import WorkflowStep
from tests.kit.authors.work import item_and_context, plain

pytestmark = pytest.mark.regression(
    "The pictures had no edge from a crawl to the fan-out over its tasks, and the fan-out was an empty box"
)

MERMAID = """\
flowchart TD
    shop["shop (books)"]
    subgraph each["each"]
        n0["a job for each task (item_and_context)"]
    end
    end_of_it["end_of_it (plain)"]
    shop --> each
    each --> end_of_it
"""


def fan_out() -> Workflow:
    workflow = Workflow("w").add("shop", crawl("books")).add_cascade("each", each_task("shop", item_and_context))
    return workflow.add("end_of_it", plain, deps="each")


def grown() -> Workflow:
    """Return the workflow as a reader restores it after the crawl's tasks are known."""
    workflow = fan_out()
    workflow.subs["each"].parts["0"] = WorkflowStep(plain, "0")
    return workflow


def states_dot(workflow: Workflow) -> str:
    output = io.StringIO()
    generate_dot(workflow, output)
    return output.getvalue()


def test_mermaid_leads_from_the_crawl_to_the_fan_out() -> None:
    assert fan_out().to_mermaid() == MERMAID
    assert "shop --> each" in grown().to_mermaid()
    assert "a job for each task" not in grown().to_mermaid(), "the jobs themselves are in the box"


def test_graphviz_leads_from_the_crawl_to_the_fan_out() -> None:
    edge = '"shop" -> "each/" [lhead="cluster_each"];'
    assert edge in fan_out().to_dot()
    assert '"each/*" [label="a job for each task (item_and_context)", style=dashed];' in fan_out().to_dot()
    assert edge in grown().to_dot()
    assert "each/*" not in grown().to_dot()
    assert '"shop" -> "each/0";' in states_dot(grown())


def test_the_graph_for_programs_has_the_edge() -> None:
    assert fan_out().to_graph().edges == [("shop", "each"), ("each", "end_of_it")]
