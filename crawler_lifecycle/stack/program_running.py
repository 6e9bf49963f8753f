"""Runs a flow from its author's program: `Workflow.run()` and `Manager().run()` do as `crawlctl flow run FILE` does.

`flows.authors.program` imports this module by its name, when an author's program calls `run`.
"""

import asyncio
import sys
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawler_lifecycle.console.failures import EXIT_STATUSES, WRONG, print_failure
from crawler_lifecycle.errors import BadInput, LifecycleError
from crawler_lifecycle.managers.cli.flow_files import warn_of_a_single_cycle
from crawler_lifecycle.stack.flow_running import STDOUT, FlowOutput, modules_of, run_to_end, steps_of

if TYPE_CHECKING:
    from crawler_lifecycle.flows import Workflow
    from crawler_lifecycle.managers import BaseLoopScript
    from crawler_lifecycle.stack.plan import StepModules


async def run_workflow(workflow: "Workflow") -> None:
    """Host the program's functions, push the workflow, and follow the workflow to its end.

    SystemExit with the exit status, unless the workflow has completed.
    """
    _refuse_import()
    await _exit_by(_run_workflow(workflow))


async def _run_workflow(workflow: "Workflow") -> int:
    from crawler_lifecycle.flows.authors.building import check_definition

    definition = workflow.definition()
    check_definition(definition)
    file = _file_of("__main__")
    has_steps = _is_script("__main__") and file.suffix == ".py" and file.stem in modules_of(definition)
    steps = replace(steps_of(definition, [str(file)] if has_steps else []), output=STDOUT)
    return await run_to_end(steps, definition, FlowOutput(file, graph=False, as_json=False))


def run_manager(manager: "BaseLoopScript") -> Any:
    """Host the manager's module, start the manager, follow the manager, and exit by its close reason.

    A manager that is awaited gets a coroutine for the running event loop. Without a failure, the program continues.
    """
    _refuse_import()
    work = _exit_by(_run_manager(manager))
    if manager.awaits:
        return work
    asyncio.run(work)
    return None


async def _run_manager(manager: "BaseLoopScript") -> int:
    from crawler_lifecycle.flows.authors.functions import reference
    from crawler_lifecycle.managers.authors.arguments import given
    from crawler_lifecycle.managers.authors.defining import family_of, flow_of

    function = reference(type(manager))
    definition = flow_of(function, manager.name, family_of(manager, None), given())
    warn_of_a_single_cycle(manager)
    steps, file = _host_of(type(manager), function)
    return await run_to_end(steps, definition, FlowOutput(file, graph=False, as_json=False))


def _host_of(manager: type, function: str) -> tuple["StepModules", Path]:
    """Return the module for the host, and the file for a hint. The program's main module is hosted as a file."""
    from crawler_lifecycle.stack.plan import StepModules

    file = _file_of(manager.__module__)
    target = str(file) if _is_script(manager.__module__) else function.partition(":")[0]
    return StepModules((target,), output=STDOUT), file


def _refuse_import() -> None:
    """Refuse a run at a module's top level: the run's host imports the module, and would run the flow again."""
    from crawler_lifecycle.flows.authors.modules import is_importing

    if is_importing():
        raise BadInput("run", 'is called while the module is imported: put the call after if __name__ == "__main__":')


async def _exit_by(work: Awaitable[int]) -> None:
    try:
        status = await work
    except LifecycleError as error:
        status = next((status for kind, status in EXIT_STATUSES if isinstance(error, kind)), WRONG)
        print_failure(error.message, status, as_json=False)
    if status:
        sys.exit(status)


def _file_of(module: str) -> Path:
    return Path(getattr(sys.modules[module], "__file__", None) or module).absolute()


def _is_script(module: str) -> bool:
    """Return whether the module is the program's file, and not a module for `python -m`."""
    return module == "__main__" and sys.modules[module].__spec__ is None
