"""The command `flow start`, which starts a crawl manager."""

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler_lifecycle.cli.authors_code import refusals_of_a_class
from crawler_lifecycle.cli.common import standard_options
from crawler_lifecycle.cli.flow_options import (
    actor_option,
    arguments_argument,
    on_record,
    open_flows,
    print_effect,
    push,
)
from crawler_lifecycle.errors import BadInput, NotReady

if TYPE_CHECKING:
    from crawler_lifecycle.contract.flows.answers import FlowAnswer
    from crawler_lifecycle.contract.flows.definition import FlowDefinition
    from crawler_lifecycle.managers import BaseLoopScript

FAMILY = "Family of the manager's flow, or the whole id `FAMILY/NAME`; default: a new family."


@click.command()
@click.argument("target")
@arguments_argument
@click.option("--id", "--flow-id", "--family", "family", help=FAMILY)
@click.option("--name", help="Name of a manager whose module is not on this machine.")
@click.option("--queue", default="default", show_default=True, help="Queue of the hosts that may run the manager.")
@actor_option
@standard_options
def start(
    target: str,
    arguments: tuple[str, ...],
    family: str | None,
    name: str | None,
    queue: str,
    actor: str | None,
    state: Path | None,
    as_json: bool,
) -> None:
    """Start the crawl manager TARGET: `module:Class`, `FILE.py:Class`, or a name in the catalogue. Print its flow's id.

    ARGUMENTS are the manager's command line, after `--`. The manager's own parser checks the line before anything is
    written, if the module is on this machine. A second start under the same flow id joins the first one; with another
    class or other arguments, the start is refused. The manager needs a host: `python -m workers.flows MODULE`, or
    `crawlctl up --flows FILE`.

    \b
    Examples:
      crawlctl flow start my_project.managers:Shops --id november -- --max-running-jobs 8
      crawlctl flow start shops_manager.py:ShopsManager
      crawlctl flow start shops -- --spider-args '{"country": "de"}'
    """
    answer = _start(target, arguments, family, name, queue, actor, state)
    effect = "is started" if answer.created else "was started before; `crawlctl flow show` shows the manager"
    print_effect(answer, effect, as_json=as_json)


def _start(
    target: str,
    arguments: Sequence[str],
    family: str | None,
    name: str | None,
    queue: str,
    actor: str | None,
    state: Path | None,
) -> "FlowAnswer":
    from crawler_lifecycle.contract.flows.item_requests import StartManager
    from crawler_lifecycle.contract.requests import refusals_as_bad_input

    if ":" in target or target.endswith(".py"):
        return push(definition_for(target, arguments, family, name, queue), state, actor)
    with refusals_as_bad_input():
        request = StartManager(manager=target, family=family, arguments=tuple(arguments), **on_record(actor))
    flows = open_flows(state)
    check_arguments(flows.manager_definition(request))
    return flows.start_manager(request)


def check_arguments(definition: "FlowDefinition") -> None:
    """Let a catalogue manager's class check the arguments, if the class is here. The manager's host checks anyway."""
    from crawler_lifecycle.managers.defining import build

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
    from crawler_lifecycle.cli.flow_files import definition_of_manager
    from crawler_lifecycle.managers.defining import family_in, flow_of

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
    from crawler_lifecycle.cli.flow_files import manager_in, managers_of, module_in, targets_hint
    from crawler_lifecycle.managers import BaseLoopScript
    from crawler_lifecycle.services.flows.modules import load

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
