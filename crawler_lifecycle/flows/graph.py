"""Graph: vertices and edges of a workflow, for programs that draw."""

from dataclasses import dataclass, field

from crawler_lifecycle.flows.steps import Level, SubWorkflow, WorkflowStep


@dataclass
class Graph:
    """Vertices by name, in the order of their insertion, and edges from a dependency to its dependent."""

    vertices: dict[str, "WorkflowStep | Graph"] = field(default_factory=dict)
    edges: list[tuple[str, str]] = field(default_factory=list)


def graph_of(workflow: Level) -> Graph:
    """Return the graph of a level. The jobs of a sub-workflow are a graph among the vertices."""
    graph = Graph()
    for name, part in workflow.parts.items():
        graph.vertices[name] = graph_of(part.workflow) if isinstance(part, SubWorkflow) else part
        graph.edges += [(dependency, name) for dependency in part.dependencies]
    return graph
