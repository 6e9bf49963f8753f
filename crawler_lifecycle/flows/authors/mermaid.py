"""Pictures for Mermaid."""

import re
from collections.abc import Iterator

from crawler_lifecycle.base.names import ROOT, joined
from crawler_lifecycle.flows.authors.building import paths_of
from crawler_lifecycle.flows.authors.states_dot import COLOURS, OTHER_COLOUR
from crawler_lifecycle.flows.authors.steps import PLACEHOLDER, Level, SubWorkflow, WorkflowStep
from crawler_lifecycle.flows.rules.states import StepState

INDENT = "    "
# the language's words: a node with such an id breaks the picture
RESERVED = {"end", "graph", "subgraph", "flowchart", "class", "classdef", "click", "style", "linkstyle", "default",
            "direction", "call", "href", "interpolate"}  # fmt: skip
DIRECTION = re.compile(r"direction(?=\s+(TB|BT|RL|LR|TD))")  # a statement at any place in a line, also inside a label


def mermaid_of(workflow: Level, *, states: bool = False) -> str:
    """Return the picture. A job's id is its name if Mermaid takes the name as an id, and a number otherwise."""
    ids = _ids(workflow)
    lines = ["flowchart TD", *_nodes(workflow, ROOT, ids, INDENT), *_edges(workflow, ROOT, ids)]
    if states:
        lines += _classes(workflow, ids)
    return "\n".join([*lines, ""])  # a page's fence begins its own line after the picture


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


def _nodes(level: Level, base: str, ids: dict[str, str], indent: str) -> Iterator[str]:
    for part in level.parts.values():
        path = joined(base, part.name)
        step = part if isinstance(part, WorkflowStep) else part.grafter
        if step is not None:
            yield f'{indent}{ids[path]}["{_label(f"{step.name} ({step.job.title})")}"]'
        if isinstance(part, SubWorkflow):
            yield f'{indent}subgraph {ids[f"{path}/"]}["{_label(part.name)}"]'
            if part.placeholder is not None:
                yield f'{indent}{INDENT}{ids[joined(path, PLACEHOLDER)]}["{_label(part.placeholder)}"]'
            yield from _nodes(part.workflow, path, ids, indent + INDENT)
            yield f"{indent}end"


def _edges(level: Level, base: str, ids: dict[str, str]) -> Iterator[str]:
    for part in level.parts.values():
        path = joined(base, part.name)
        own = ids[path] if path in ids else ids[f"{path}/"]
        for dependency in part.sources:
            source = joined(base, dependency)
            yield f"{INDENT}{ids.get(f'{source}/') or ids[source]} --> {own}"
        if isinstance(part, SubWorkflow):
            if part.grafter is not None:
                yield f"{INDENT}{own} --> {ids[f'{path}/']}"
            yield from _edges(part.workflow, path, ids)


def _classes(workflow: Level, ids: dict[str, str]) -> Iterator[str]:
    by_state: dict[StepState, list[str]] = {}
    for path, step in paths_of(workflow):
        by_state.setdefault(step.state, []).append(ids[path])
    for state, members in by_state.items():
        yield f"{INDENT}classDef {state.value} fill:{COLOURS.get(state, OTHER_COLOUR)}"
        yield f"{INDENT}class {','.join(members)} {state.value}"


def _label(text: str) -> str:
    """Return the text for a label in quotes, with codes for what Mermaid reads as more than text."""
    plain = text.replace("\n", " ").replace("#", "#35;").replace('"', "#quot;").replace("`", "#96;")
    return DIRECTION.sub("#100;irection", plain)
