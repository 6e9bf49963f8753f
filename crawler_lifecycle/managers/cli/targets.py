"""Finds a crawl manager by its target, such as `module:Class`, and checks its arguments."""

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from crawler_lifecycle.errors import BadInput, NotReady
from crawler_lifecycle.managers.cli.flow_files import refusals_of_a_class

if TYPE_CHECKING:
    from crawler_lifecycle.flows.model.definition import FlowDefinition
    from crawler_lifecycle.managers import BaseLoopScript


def check_arguments(definition: "FlowDefinition") -> None:
    """Let a catalogue manager's class check the arguments, if the class is here. The manager's host checks anyway."""
    from crawler_lifecycle.managers.authors.defining import build

    work = definition.manager
    assert work is not None, "the flow for a catalogue's manager has a manager"
    try:
        manager = class_of(work.function)
    except BadInput:  # the module here is another module, or lacks its libraries
        return
    if manager is not None and isinstance(work.arguments, list):
        with refusals_of_a_class(manager):
            build(manager, [str(word) for word in work.arguments])


def definition_for(
    target: str, arguments: Sequence[str], family: str | None, name: str | None, queue: str
) -> "FlowDefinition":
    """Return the flow for a class. Without the class on this machine, the host checks the arguments."""
    from crawler_lifecycle.managers.authors.defining import family_in, flow_of
    from crawler_lifecycle.managers.cli.flow_files import definition_of_manager

    manager = class_of(target)
    if manager is not None:
        if name is not None:
            raise BadInput("name", "the class is on this machine, and names itself")
        return definition_of_manager(manager, arguments, family, queue)
    if name is None:
        module = target.partition(":")[0]
        raise BadInput("name", f"is needed, because the module {module} is not on this machine")
    return flow_of(target, name, family_in(arguments, family, name), arguments, queue)


def class_of(target: str) -> "type[BaseLoopScript] | None":
    """Return the class for `FILE.py`, `FILE.py:Class` or `module:Class`; None if the module is not on this machine."""
    from crawler_lifecycle.flows.authors.modules import load
    from crawler_lifecycle.managers import BaseLoopScript
    from crawler_lifecycle.managers.cli.flow_files import manager_in, managers_of, module_in, targets_hint

    place, _, name = (target, "", "") if target.endswith(".py") else target.rpartition(":")
    if place.endswith(".py"):
        file = Path(place)
        manager = manager_in(file, name or None, has_option=False)
        if manager is None:
            hint = targets_hint(file, managers_of(module_in(file)))
            raise BadInput("target", f"{place} has no crawl manager {name or 'at its top level'}{hint}")
        return manager
    if not _is_here(place):
        return None
    try:
        (module,) = load([place], Path.cwd()).modules.values()
    except NotReady as error:
        raise BadInput("target", error.message) from error
    chosen = getattr(module, name, None)
    if not isinstance(chosen, type) or not issubclass(chosen, BaseLoopScript) or chosen.__module__ != place:
        raise BadInput("target", f"{place} defines no crawl manager {name!r}")
    return chosen


def _is_here(module: str) -> bool:
    """Return whether the module's top-level package is on this machine, also in the current folder."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.util.find_spec(module.partition(".")[0]) is not None
