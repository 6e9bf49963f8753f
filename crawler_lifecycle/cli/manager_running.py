"""Runs a crawl manager from its author's file: `Manager().run()` does the same as `crawlctl flow run FILE`.

`managers.running` imports this module by its name, when an author's program calls `run`.
"""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawler_lifecycle.cli.authors_code import warn_of_a_single_cycle
from crawler_lifecycle.cli.failures import EXIT_STATUSES, WRONG, print_failure
from crawler_lifecycle.cli.flow_running import STDOUT, Ending, run_to_end
from crawler_lifecycle.errors import LifecycleError

if TYPE_CHECKING:
    from crawler_lifecycle.managers import WorkFlowManager
    from crawler_lifecycle.services.embedded.plan import StepModules


def run(manager: "WorkFlowManager") -> Any:
    """Host the manager's module, start the manager, follow the manager, and exit by its close reason.

    A manager that is awaited gets a coroutine for the running event loop. Without a failure, the program goes on.
    """
    if manager.awaits:
        return _run(manager)
    asyncio.run(_run(manager))
    return None


async def _run(manager: "WorkFlowManager") -> None:
    """Run the manager to its end; SystemExit with the exit status unless the close reason is `finished`."""
    from crawler_lifecycle.flows.functions import reference
    from crawler_lifecycle.managers.arguments import given
    from crawler_lifecycle.managers.defining import family_of, flow_of

    try:
        function = reference(type(manager))
        definition = flow_of(function, manager.name, family_of(manager, None), given())
        warn_of_a_single_cycle(manager)
        steps, file = _host_of(type(manager), function)
        status = await run_to_end(steps, definition, Ending(file, graph=False, as_json=False))
    except LifecycleError as error:
        status = next((status for kind, status in EXIT_STATUSES if isinstance(error, kind)), WRONG)
        print_failure(error.message, status, as_json=False)
    if status:
        sys.exit(status)


def _host_of(manager: type, function: str) -> tuple["StepModules", Path]:
    """Return the module for the host, and the file for a hint. The program's main module is hosted as a file."""
    from crawler_lifecycle.services.embedded.plan import StepModules

    module = sys.modules[manager.__module__]
    file = Path(getattr(module, "__file__", None) or manager.__module__).absolute()
    is_script = manager.__module__ == "__main__" and module.__spec__ is None
    target = str(file) if is_script else function.partition(":")[0]
    return StepModules((target,), output=STDOUT), file
