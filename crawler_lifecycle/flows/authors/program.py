"""Run a flow from its author's program, from start to end."""

from importlib import import_module
from typing import Any

RUNNER = "crawler_lifecycle.stack.program_running"  # by name: authors' modules need no command line to be imported


async def run_workflow(workflow: Any) -> None:
    """Host the program's functions, push the workflow, follow the workflow to its end, and exit by its state."""
    await import_module(RUNNER).run_workflow(workflow)


def run_manager(manager: Any) -> Any:
    """Start the manager, follow the manager to its end, and exit by its close reason."""
    return import_module(RUNNER).run_manager(manager)
