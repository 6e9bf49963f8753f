"""Chancy's utilities."""

from crawler_lifecycle.flows.authors.workflow import new_id

__all__ = ["chancy_uuid"]


def chancy_uuid() -> str:
    """Return an id for a workflow."""
    return str(new_id())
