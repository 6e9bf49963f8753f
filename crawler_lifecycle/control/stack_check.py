"""The check of the embedded stack by `crawlctl doctor`, and the parts that cannot be checked without the stack."""

import psutil

from crawler_lifecycle.control import stack_file
from crawler_lifecycle.control.installation import Installation
from crawler_lifecycle.errors import NotReady

STACK = "stack"
OF_THE_STACK = frozenset(
    {"temporal", "search attributes", "worker", "archive worker", "scheduler service", "installation", "audit"}
)
OF_THE_DATABASE = frozenset({"database", "cluster", "limits", "runs"})


class StackDown(NotReady):
    """The stack does not run, and the settings name no other installation. `parts` cannot be checked without it."""

    def __init__(self, message: str, parts: frozenset[str] = OF_THE_STACK) -> None:
        super().__init__(message)
        self.parts = parts


def check_stack(installation: Installation) -> str:
    """Return the names of the stack's processes, or say that there is no stack. NotReady if a process has ended."""
    state = installation.settings.state
    stack = stack_file.read(state)
    if stack is None:
        if not _is_configured_elsewhere(installation):
            raise _missing_stack(installation)
        return "none on this state folder: its parts are looked after elsewhere"
    ended = [process.name for process in stack.processes if not psutil.pid_exists(process.pid)]
    if len(ended) == len(stack.processes):
        raise StackDown(f"every process of the stack on {state} has ended: start the stack again with `crawlctl up`")
    if ended:
        verb = "has" if len(ended) == 1 else "have"
        raise NotReady(
            f"{' and '.join(ended)} {verb} ended: `crawlctl up` restarts each part while it runs, and names the "
            "part's log; if it no longer runs, start it"
        )
    return ", ".join(process.name for process in stack.processes)


def _is_configured_elsewhere(installation: Installation) -> bool:
    """Return whether the settings name a scheduler service or a Temporal server."""
    has_scheduler = bool(installation.settings.scheduler.token.get_secret_value())
    return has_scheduler or "TEMPORAL_ADDRESS" in installation.temporal


def _missing_stack(installation: Installation) -> StackDown:
    """Return the fault of an installation without a stack. Without a state folder, there is no database either."""
    settings = installation.settings
    if settings.state.exists():
        return StackDown(f"no stack runs on {settings.state}: start one with `crawlctl up`")
    parts = OF_THE_STACK if settings.database.url else OF_THE_STACK | OF_THE_DATABASE
    return StackDown(f"there is no state folder {settings.state}: start a stack on it with `crawlctl up`", parts)
