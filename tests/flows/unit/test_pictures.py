"""Graphs 1h: pictures, and names that a picture's language would misread."""

import io
import re

from crawler_lifecycle.flows import Graph, Workflow, crawl, generate_dot
from crawler_lifecycle.flows.rules.states import StepState, WorkflowState
from tests.kit.authors.work import StepWorker, UserNotifier, plain, with_context


def nested() -> Workflow:
    sub = Workflow().add("x", plain).add("y", plain, deps="x")
    workflow = Workflow("nested").add("a", plain).add_workflow("sub", sub, deps="a")
    workflow.add_graft("g", UserNotifier.new({"account_id": 1}), deps="sub")
    return workflow.add_cascade("z", with_context, deps=["g", "sub/x"])


def test_074_a_graph_has_graphs_among_its_vertices() -> None:
    graph = nested().to_graph()
    assert list(graph.vertices) == ["a", "sub", "g", "z"]
    inner = graph.vertices["sub"]
    assert isinstance(inner, Graph)
    assert (list(inner.vertices), inner.edges) == (["x", "y"], [("x", "y")])
    assert graph.edges == [("a", "sub"), ("sub", "g"), ("g", "z"), ("sub/x", "z")]


def test_075_states_have_their_colours() -> None:
    workflow = Workflow("states")
    for number, state in enumerate(StepState):
        workflow.add(f"s{number}", plain)
        workflow[f"s{number}"].state = state
    workflow.state = WorkflowState.RUNNING
    output = io.StringIO()
    generate_dot(workflow, output)
    text = output.getvalue()
    assert re.findall(r"\\n\((\w+)\)\", fillcolor=(\w+)", text) == [
        ("pending", "lightblue"),
        ("running", "yellow"),
        ("retrying", "lightgray"),
        ("succeeded", "lightgreen"),
        ("failed", "lightpink"),
    ]
    assert r'label="Workflow: states\nState: running";' in text


def test_075_jobs_of_sub_workflows_are_nodes() -> None:
    output = io.StringIO()
    generate_dot(nested(), output)
    edges = re.findall(r'"([^"]+)" -> "([^"]+)"', output.getvalue())
    assert edges == [
        ("a", "sub/x"),
        ("sub/x", "sub/y"),
        ("sub/x", "g"),
        ("sub/y", "g"),
        ("g", "z"),
        ("sub/x", "z"),
    ]


def test_076_sub_workflows_are_clusters_and_texts_are_escaped() -> None:
    text = nested().to_dot()
    assert '  subgraph "cluster_sub" {' in text
    assert '  "a" -> "sub/" [lhead="cluster_sub"];' in text
    assert '  "sub/" -> "g" [ltail="cluster_sub"];' in text
    assert '  "g" -> "g/" [lhead="cluster_g"];' in text
    assert '  "sub/x" -> "z";' in text
    assert text.count("{") == text.count("}")
    strange = Workflow('say "hi" \\').add('a"b\\', plain).to_dot()
    assert r'digraph "say \"hi\" \\" {' in strange
    assert r'"a\"b\\" [label="a\"b\\ (plain)"];' in strange


def test_077_titles_of_jobs() -> None:
    workflow = Workflow().add("w", StepWorker.new({})).add_cascade("c", with_context)  # type: ignore[attr-defined]
    text = workflow.add("k", crawl("books")).add_approval("p").to_mermaid()
    assert text.splitlines() == [
        "flowchart TD",
        '    w["w (StepWorker)"]',
        '    c["c (with_context)"]',
        '    k["k (books)"]',
        '    p["p (approval)"]',
    ]


def test_077_sub_workflows_are_subgraphs_and_edges_go_to_them() -> None:
    assert nested().to_mermaid().splitlines() == [
        "flowchart TD",
        '    a["a (plain)"]',
        '    subgraph sub["sub"]',
        '        n0["x (plain)"]',
        '        n1["y (plain)"]',
        "    end",
        '    g["g (UserNotifier)"]',
        '    subgraph n2["g"]',
        "    end",
        '    z["z (with_context)"]',
        "    a --> sub",
        "    n0 --> n1",
        "    sub --> g",
        "    g --> n2",
        "    n2 --> z",
        "    n0 --> z",
    ]


def test_077_names_that_mermaid_misreads_get_numbers() -> None:
    workflow = Workflow().add("end", plain).add("n0", plain).add('"quoted" #1', plain, deps="end")
    assert workflow.to_mermaid().splitlines() == [
        "flowchart TD",
        '    n1["end (plain)"]',
        '    n0["n0 (plain)"]',
        '    n2["#quot;quoted#quot; #35;1 (plain)"]',
        "    n1 --> n2",
    ]
    level = Workflow().add_workflow("class", Workflow().add("a", plain))
    assert '    subgraph n0["class"]' in level.to_mermaid().splitlines()


def test_077_texts_that_mermaid_takes_for_more_than_text_have_codes() -> None:
    """A label that begins with a backtick is no label, and a direction anywhere in a line replaces the line."""
    workflow = Workflow().add("`x`", plain).add_workflow("my direction  LR", Workflow().add("direction TB", plain))
    assert workflow.add("directions", plain).to_mermaid().splitlines() == [
        "flowchart TD",
        '    n0["#96;x#96; (plain)"]',
        '    subgraph n1["my #100;irection  LR"]',
        '        n2["#100;irection TB (plain)"]',
        "    end",
        '    directions["directions (plain)"]',
    ]


def test_079_nodes_have_the_colours_of_their_states() -> None:
    workflow = Workflow().add("a", plain).add("b", plain).add("c", plain)
    workflow["b"].state = StepState.FAILED
    lines = workflow.to_mermaid(states=True).splitlines()
    assert lines[4:] == [
        "    classDef pending fill:lightblue",
        "    class a,c pending",
        "    classDef failed fill:lightpink",
        "    class b failed",
    ]


def test_a_picture_of_ten_thousand_jobs_has_ten_thousand_edges() -> None:
    workflow = Workflow().add("a", plain).add_many("m", [plain] * 5_000, deps="a").add("z", plain, deps="m")
    output = io.StringIO()
    generate_dot(workflow, output)
    assert output.getvalue().count("->") == 10_000
