"""Pictures for Graphviz with all jobs' states, in the form for users from Chancy."""

from collections.abc import Iterator
from typing import TextIO

from crawler_lifecycle.base.names import ROOT, joined
from crawler_lifecycle.flows.authors.building import paths_of
from crawler_lifecycle.flows.authors.dot import quoted
from crawler_lifecycle.flows.authors.steps import Level, SubWorkflow, WorkflowStep
from crawler_lifecycle.flows.rules.states import StepState

COLOURS = {
    StepState.PENDING: "lightblue",
    StepState.RUNNING: "yellow",
    StepState.SUCCEEDED: "lightgreen",
    StepState.FAILED: "lightpink",
}
OTHER_COLOUR = "lightgray"


def write_states_dot(workflow: Level, output: TextIO) -> None:
    """Write the picture. Jobs of sub-workflows are nodes with their paths, and edges lead to jobs only."""
    title = workflow.name or workflow.id
    output.write(f"digraph {quoted(title)} {{\n")
    output.write("  rankdir=TB;\n")
    output.write('  node [shape=box, style="rounded,filled", fontname="Arial"];\n')
    for path, step in paths_of(workflow):
        label = f'{quoted(path)[:-1]}\\n({step.state.value})"'
        output.write(f"  {quoted(path)} [label={label}, fillcolor={COLOURS.get(step.state, OTHER_COLOUR)}];\n")
    for source, target in _edges(workflow, ROOT, ()):
        output.write(f"  {quoted(source)} -> {quoted(target)};\n")
    output.write('  labelloc="t";\n')
    output.write(f'  label={quoted(f"Workflow: {title}")[:-1]}\\nState: {workflow.state.value}";\n')
    output.write("}\n")


def _edges(level: Level, base: str, around: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield a level's edges. `around`: the dependencies for the level's first jobs."""
    for part in level.parts.values():
        path = joined(base, part.name)
        own = tuple(source for name in part.sources for source in _jobs(level, base, name))
        sources = own or around
        if isinstance(part, WorkflowStep):
            yield from ((source, path) for source in sources)
        elif part.grafter is not None:
            yield from ((source, path) for source in sources)
            yield from _edges(part.workflow, path, (path,))
        else:
            yield from _edges(part.workflow, path, sources)


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
