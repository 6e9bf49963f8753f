"""Flows for tests of the page, in every browser."""

from crawler_lifecycle.flows import Workflow
from tests.kit.authors.work import plain


def diamond(name: str) -> Workflow:
    """Return a flow of four jobs in three layers."""
    flow = Workflow("diamond", id=name).add("fetch", plain)
    flow.add("left", plain, deps="fetch").add("right", plain, deps="fetch")
    return flow.add("join", plain, deps=["left", "right"])
