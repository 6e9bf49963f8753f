"""Pictures for Graphviz. A sub-workflow is a cluster with an invisible node, at which the cluster's edges end."""

from collections.abc import Iterator

from crawler_lifecycle.base.names import ROOT, joined
from crawler_lifecycle.flows.authors.steps import PLACEHOLDER, Level, SubWorkflow, WorkflowStep

INDENT = "  "


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
        *_nodes(workflow, ROOT, INDENT),
        *(f"{INDENT}{edge}" for edge in _edges(workflow, ROOT)),
        "}",
    ]
    return "\n".join(lines)


def _nodes(level: Level, base: str, indent: str) -> Iterator[str]:
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
            yield from _nodes(part.workflow, path, indent + INDENT)
            yield f"{indent}}}"


def _edges(level: Level, base: str) -> Iterator[str]:
    for part in level.parts.values():
        path = joined(base, part.name)
        is_cluster = isinstance(part, SubWorkflow) and part.grafter is None
        for dependency in part.sources:
            yield _edge(joined(base, dependency), path, is_from=_is_sub(level, dependency), is_to=is_cluster)
        if isinstance(part, SubWorkflow):
            if part.grafter is not None:
                yield _edge(path, path, is_from=False, is_to=True)
            yield from _edges(part.workflow, path)


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
