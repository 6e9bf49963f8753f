"""Running: starts a manager from its author's file."""

from importlib import import_module
from typing import Any

RUNNER = "crawler_lifecycle.cli.manager_running"  # by name: authors' modules need no command line to be imported


def run(manager: Any) -> Any:
    """Start the manager, follow the manager to its end, and exit by its close reason."""
    return import_module(RUNNER).run(manager)
