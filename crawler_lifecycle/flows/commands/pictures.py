"""Pictures of flows as text."""

import io
from enum import StrEnum

from crawler_lifecycle.flows import Workflow, generate_dot


class PictureFormat(StrEnum):
    MERMAID = "mermaid"
    DOT = "dot"  # for Graphviz, with sub-workflows as clusters
    STATES_DOT = "states-dot"  # for Graphviz, with the states, in the form for users from Chancy


def picture(workflow: Workflow, kind: str, *, states: bool = True) -> str:
    """Return the picture. `states`: with colours in Mermaid."""
    if kind == PictureFormat.MERMAID:
        return workflow.to_mermaid(states=states)
    if kind == PictureFormat.DOT:
        return workflow.to_dot()
    text = io.StringIO()
    generate_dot(workflow, text)
    return text.getvalue()
