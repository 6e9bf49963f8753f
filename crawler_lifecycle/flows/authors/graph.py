"""Graph: a workflow's vertices and edges, for programs that draw."""

from dataclasses import dataclass, field

from crawler_lifecycle.flows.authors.steps import Level, SubWorkflow, WorkflowStep


@dataclass
class Graph:
    """Vertices by name, in their order, and edges from a dependency to its dependent."""

    vertices: dict[str, "WorkflowStep | Graph"] = field(default_factory=dict)
    edges: list[tuple[str, str]] = field(default_factory=list)


def graph_of(workflow: Level) -> Graph:
    """Return a level's graph. A sub-workflow is a graph among the vertices."""
    graph = Graph()
    for name, part in workflow.parts.items():
        graph.vertices[name] = graph_of(part.workflow) if isinstance(part, SubWorkflow) else part
        graph.edges += [(dependency, name) for dependency in part.sources]
    return graph
