"""Pictures of workflows for Graphviz and Mermaid, and the vertices and edges for programs that draw.

For Graphviz, a sub-workflow is a cluster with an invisible node, at which the cluster's edges end. The picture with all
jobs' states has the form for users from Chancy.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TextIO

from crawler_lifecycle.base.names import ROOT, joined
from crawler_lifecycle.flows.authors.building import paths_of
from crawler_lifecycle.flows.authors.steps import PLACEHOLDER, Level, SubWorkflow, WorkflowStep
from crawler_lifecycle.flows.rules.states import StepState

INDENT = "  "
COLOURS = {
    StepState.PENDING: "lightblue",
    StepState.RUNNING: "yellow",
    StepState.SUCCEEDED: "lightgreen",
    StepState.FAILED: "lightpink",
}
OTHER_COLOUR = "lightgray"
MERMAID_INDENT = "    "
# the language's words: a node with such an id breaks the picture
RESERVED = {"end", "graph", "subgraph", "flowchart", "class", "classdef", "click", "style", "linkstyle", "default",
            "direction", "call", "href", "interpolate"}  # fmt: skip
DIRECTION = re.compile(r"direction(?=\s+(TB|BT|RL|LR|TD))")  # a statement at any place in a line, also inside a label


def quoted(text: str) -> str:
    """Return the text as a quoted string in the DOT language."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def dot_of(workflow: Level) -> str:
    """Return the whole picture, without states."""
    lines = [
        f"digraph {quoted(workflow.name or workflow.id)} {{",
        f"{INDENT}compound=true;",
        f"{INDENT}rankdir=TB;",
        f"{INDENT}node [shape=box];",
        *_dot_nodes(workflow, ROOT, INDENT),
        *(f"{INDENT}{edge}" for edge in _dot_edges(workflow, ROOT)),
        "}",
    ]
    return "\n".join(lines)


def write_states_dot(workflow: Level, output: TextIO) -> None:
    """Write the picture. Jobs of sub-workflows are nodes with their paths, and edges lead to jobs only."""
    title = workflow.name or workflow.id
    output.write(f"digraph {quoted(title)} {{\n")
    output.write("  rankdir=TB;\n")
    output.write('  node [shape=box, style="rounded,filled", fontname="Arial"];\n')
    for path, step in paths_of(workflow):
        label = f'{quoted(path)[:-1]}\\n({step.state.value})"'
        output.write(f"  {quoted(path)} [label={label}, fillcolor={COLOURS.get(step.state, OTHER_COLOUR)}];\n")
    for source, target in _job_edges(workflow, ROOT, ()):
        output.write(f"  {quoted(source)} -> {quoted(target)};\n")
    output.write('  labelloc="t";\n')
    output.write(f'  label={quoted(f"Workflow: {title}")[:-1]}\\nState: {workflow.state.value}";\n')
    output.write("}\n")


def mermaid_of(workflow: Level, *, states: bool = False) -> str:
    """Return the picture. A job's id is its name if Mermaid takes the name as an id, and a number otherwise."""
    ids = _ids(workflow)
    lines = ["flowchart TD", *_mermaid_nodes(workflow, ROOT, ids, MERMAID_INDENT), *_mermaid_edges(workflow, ROOT, ids)]
    if states:
        lines += _classes(workflow, ids)
    return "\n".join([*lines, ""])  # a page's fence begins its own line after the picture


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


def _dot_nodes(level: Level, base: str, indent: str) -> Iterator[str]:
    for part in level.parts.values():
        path = joined(base, part.name)
        step = part if isinstance(part, WorkflowStep) else part.grafter
        if step is not None:
            yield f"{indent}{quoted(path)} [label={quoted(f'{step.name} ({step.job.title})')}];"
        if isinstance(part, SubWorkflow):
            yield f"{indent}subgraph {quoted(_cluster(path))} {{"
            yield f"{indent}{INDENT}label={quoted(part.name)};"
            yield f"{indent}{INDENT}{quoted(_anchor(path))} [shape=point, style=invis];"
            if part.placeholder is not None:
                node = quoted(joined(path, PLACEHOLDER))
                yield f"{indent}{INDENT}{node} [label={quoted(part.placeholder)}, style=dashed];"
            yield from _dot_nodes(part.workflow, path, indent + INDENT)
            yield f"{indent}}}"


def _dot_edges(level: Level, base: str) -> Iterator[str]:
    for part in level.parts.values():
        path = joined(base, part.name)
        is_cluster = isinstance(part, SubWorkflow) and part.grafter is None
        for dependency in part.sources:
            yield _edge(joined(base, dependency), path, is_from=_is_sub(level, dependency), is_to=is_cluster)
        if isinstance(part, SubWorkflow):
            if part.grafter is not None:
                yield _edge(path, path, is_from=False, is_to=True)
            yield from _dot_edges(part.workflow, path)


def _edge(source: str, target: str, *, is_from: bool, is_to: bool) -> str:
    """Return an edge; where an end is a sub-workflow, the edge ends at its cluster."""
    ends = [f"ltail={quoted(_cluster(source))}"] if is_from else []
    ends += [f"lhead={quoted(_cluster(target))}"] if is_to else []
    attributes = f" [{', '.join(ends)}]" if ends else ""
    first = _anchor(source) if is_from else source
    last = _anchor(target) if is_to else target
    return f"{quoted(first)} -> {quoted(last)}{attributes};"


def _is_sub(level: Level, path: str) -> bool:
    first, _, rest = path.partition("/")
    part = level.parts.get(first)
    if not isinstance(part, SubWorkflow):
        return False
    return _is_sub(part.workflow, rest) if rest else True


def _cluster(path: str) -> str:
    return f"cluster_{path}"


def _anchor(path: str) -> str:
    return f"{path}/"


def _job_edges(level: Level, base: str, around: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield a level's edges. `around`: the dependencies for the level's first jobs."""
    for part in level.parts.values():
        path = joined(base, part.name)
        own = tuple(source for name in part.sources for source in _jobs(level, base, name))
        sources = own or around
        if isinstance(part, WorkflowStep):
            yield from ((source, path) for source in sources)
        elif part.grafter is not None:
            yield from ((source, path) for source in sources)
            yield from _job_edges(part.workflow, path, (path,))
        else:
            yield from _job_edges(part.workflow, path, sources)


def _jobs(level: Level, base: str, name: str) -> Iterator[str]:
    """Yield the jobs' paths for a name."""
    first, _, rest = name.partition("/")
    part, path = level.parts.get(first), joined(base, first)
    if not isinstance(part, SubWorkflow):
        yield path
    elif rest:
        yield from _jobs(part.workflow, path, rest)
    else:
        if part.grafter is not None:
            yield path
        yield from (inner for inner, _ in paths_of(part.workflow, path))


def _ids(workflow: Level) -> dict[str, str]:
    """Return jobs' ids by path, and sub-workflows' ids by path and a slash."""
    keys = list(_keys(workflow, ROOT))
    ids = {key: key for key in keys if re.fullmatch(r"[A-Za-z0-9_]+", key) and key.lower() not in RESERVED}
    number = 0
    for key in keys:
        if key in ids:
            continue
        plain = key.removesuffix("/")
        if (
            key != plain
            and plain not in keys
            and re.fullmatch(r"\w+", plain, re.ASCII)
            and plain.lower() not in RESERVED
        ):
            ids[key] = plain
            continue
        while f"n{number}" in keys:
            number += 1
        ids[key] = f"n{number}"
        number += 1
    return ids


def _keys(level: Level, base: str) -> Iterator[str]:
    for part in level.parts.values():
        path = joined(base, part.name)
        if isinstance(part, WorkflowStep) or part.grafter is not None:
            yield path
        if isinstance(part, SubWorkflow):
            yield f"{path}/"
            if part.placeholder is not None:
                yield joined(path, PLACEHOLDER)
            yield from _keys(part.workflow, path)


def _mermaid_nodes(level: Level, base: str, ids: dict[str, str], indent: str) -> Iterator[str]:
    for part in level.parts.values():
        path = joined(base, part.name)
        step = part if isinstance(part, WorkflowStep) else part.grafter
        if step is not None:
            yield f'{indent}{ids[path]}["{_label(f"{step.name} ({step.job.title})")}"]'
        if isinstance(part, SubWorkflow):
            yield f'{indent}subgraph {ids[f"{path}/"]}["{_label(part.name)}"]'
            if part.placeholder is not None:
                yield f'{indent}{MERMAID_INDENT}{ids[joined(path, PLACEHOLDER)]}["{_label(part.placeholder)}"]'
            yield from _mermaid_nodes(part.workflow, path, ids, indent + MERMAID_INDENT)
            yield f"{indent}end"


def _mermaid_edges(level: Level, base: str, ids: dict[str, str]) -> Iterator[str]:
    for part in level.parts.values():
        path = joined(base, part.name)
        own = ids[path] if path in ids else ids[f"{path}/"]
        for dependency in part.sources:
            source = joined(base, dependency)
            yield f"{MERMAID_INDENT}{ids.get(f'{source}/') or ids[source]} --> {own}"
        if isinstance(part, SubWorkflow):
            if part.grafter is not None:
                yield f"{MERMAID_INDENT}{own} --> {ids[f'{path}/']}"
            yield from _mermaid_edges(part.workflow, path, ids)


def _classes(workflow: Level, ids: dict[str, str]) -> Iterator[str]:
    by_state: dict[StepState, list[str]] = {}
    for path, step in paths_of(workflow):
        by_state.setdefault(step.state, []).append(ids[path])
    for state, members in by_state.items():
        yield f"{MERMAID_INDENT}classDef {state.value} fill:{COLOURS.get(state, OTHER_COLOUR)}"
        yield f"{MERMAID_INDENT}class {','.join(members)} {state.value}"


def _label(text: str) -> str:
    """Return the text for a label in quotes, with codes for what Mermaid reads as more than text."""
    plain = text.replace("\n", " ").replace("#", "#35;").replace('"', "#quot;").replace("`", "#96;")
    return DIRECTION.sub("#100;irection", plain)
