"""Chancy's election. Here every flow has its own supervisor."""

from crawler_lifecycle.compat.chancy.plugin import Plugin


class Leadership(Plugin):
    """The election for all workflows. The numbers have no effect: no process here is a leader."""

    def __init__(self, poll_interval: int = 60, timeout: int = 120) -> None:
        self.poll_interval = poll_interval
        self.timeout = timeout


class ImmediateLeadership(Leadership):
    """The election for programs with a single process."""
