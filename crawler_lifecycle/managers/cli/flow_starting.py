"""The command `flow start`, which starts a crawl manager."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler_lifecycle.console.common import standard_options
from crawler_lifecycle.flows.cli.options import (
    OpenDirect,
    actor_option,
    arguments_argument,
    on_record,
    open_flows,
    print_effect,
    push,
)
from crawler_lifecycle.managers.cli.targets import check_arguments, definition_for

if TYPE_CHECKING:
    from crawler_lifecycle.flows.model.answers import FlowAnswer

FAMILY = "Family of the manager's flow, or the whole id `FAMILY/NAME`; default: a new family."


@click.command()
@click.argument("target")
@arguments_argument
@click.option("--id", "--flow-id", "--family", "family", help=FAMILY)
@click.option("--name", help="Name of a manager whose module is not on this machine.")
@click.option("--queue", default="default", show_default=True, help="Queue of the hosts that may run the manager.")
@actor_option
@standard_options
@click.pass_obj
def start(
    open_direct: OpenDirect,
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
    answer = _start(target, arguments, family, name, queue, open_direct, actor, state)
    effect = "is started" if answer.created else "was started before; `crawlctl flow show` shows the manager"
    print_effect(answer, effect, as_json=as_json)


def _start(
    target: str,
    arguments: Sequence[str],
    family: str | None,
    name: str | None,
    queue: str,
    open_direct: OpenDirect,
    actor: str | None,
    state: Path | None,
) -> "FlowAnswer":
    from crawler_lifecycle.flows.model.item_requests import StartManager
    from crawler_lifecycle.model.requests import refusals_as_bad_input

    if ":" in target or target.endswith(".py"):
        return push(definition_for(target, arguments, family, name, queue), open_direct, state, actor)
    with refusals_as_bad_input():
        request = StartManager(manager=target, family=family, arguments=tuple(arguments), **on_record(actor))
    flows = open_flows(state)
    check_arguments(flows.manager_definition(request))
    return flows.start_manager(request)
