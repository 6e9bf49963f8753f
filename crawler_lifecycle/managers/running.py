"""Running: starts a manager from its own file. Hosts put their implementation in here."""

from collections.abc import Callable
from typing import Any

from crawler_lifecycle.errors import NotReady

_runners: list[Callable[[Any], Any]] = []


def run_with(runner: Callable[[Any], Any]) -> None:
    """Let `run` call the runner with the manager."""
    _runners[:] = [runner]


def run(manager: Any) -> Any:
    if not _runners:
        raise NotReady("no host for crawl managers is in this process")
    return _runners[0](manager)
