"""shub-workflow's graph manager."""

from crawler_lifecycle.managers import GraphManager

__all__ = ["GraphManager"]
