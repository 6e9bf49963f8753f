"""The commands that store authors' flows and jobs, and start crawl managers: push, add, start."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler_lifecycle.base.words import counted
from crawler_lifecycle.console.common import standard_options
from crawler_lifecycle.flows.cli.options import (
    OpenDirect,
    actor_option,
    arguments_argument,
    file_argument,
    flow_argument,
    manager_option,
    needs_installation,
    on_record,
    open_flows,
    print_effect,
    workflow_option,
)
from crawler_lifecycle.flows.cli.options import (
    push as push_flow,
)
from crawler_lifecycle.managers.cli.targets import check_arguments, definition_for

if TYPE_CHECKING:
    from crawler_lifecycle.flows.model.records import FlowAnswer

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
    class or other arguments, the start is refused. The manager needs a host: `crawlctl host MODULE`, or
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


@click.command()
@file_argument
@workflow_option
@click.option("--id", "family", help="Id of the flow, in place of the id in FILE.")
@actor_option
@standard_options
@click.pass_obj
def push(
    open_direct: OpenDirect,
    file: Path,
    workflow_name: str | None,
    family: str | None,
    actor: str | None,
    state: Path | None,
    as_json: bool,
) -> None:
    """Store the workflow in FILE: a Python file, or a definition as JSON. Print the flow's id.

    A push of a known id updates the flow. The flow is stored even if all workers and Temporal are away. Its steps
    need a host: `crawlctl host FILE`, or `crawlctl up --flows FILE`.

    \b
    Examples:
      crawlctl flow push bookshop_graph.py
      crawlctl flow push bookshop_graph.py --flow nightly --id nightly-2026-11-22
    """
    from crawler_lifecycle.managers.cli.flow_checking import names_in_catalogue, refuse_missing_crawlers
    from crawler_lifecycle.managers.cli.flow_files import definition_in

    definition = definition_in(file, workflow_name, family)
    refuse_missing_crawlers(definition, names_in_catalogue(None, state))
    answer = push_flow(definition, open_direct, state, actor)
    members = counted(answer.count, "job")
    updated = f"updated, {members} added or changed" if answer.count else "unchanged"
    effect = f"made with {members}" if answer.created else updated
    print_effect(answer, effect, as_json=as_json)


@click.command()
@flow_argument
@click.argument("file", type=click.Path(path_type=Path), required=False)
@workflow_option
@click.option("--key", help="Key of the addition: the same key again adds no jobs. Needed for FILE.")
@click.option("--into", default="", metavar="PATH", help="Sub-workflow that receives the jobs.")
@click.option("--item", "texts", multiple=True, metavar="JSON", help="Parameters of an item for a crawl manager.")
@click.option("--items", type=click.Path(path_type=Path), help="File with items: JSON objects in lines, or a list.")
@click.option("--spider", help="Crawler of items without `spider`; default: that of the manager's first item.")
@manager_option
@actor_option
@standard_options
@click.pass_obj
def add(
    open_direct: OpenDirect,
    flow: str,
    file: Path | None,
    workflow_name: str | None,
    key: str | None,
    into: str,
    texts: tuple[str, ...],
    items: Path | None,
    spider: str | None,
    manager: str | None,
    actor: str | None,
    state: Path | None,
    as_json: bool,
) -> None:
    """Add the jobs in FILE, or items for a crawl manager, to the open FLOW, once under a key.

    \b
    Examples:
      crawlctl flow add nightly-2026-11-22 more_shops.py --key shops-2
      crawlctl flow add november/shops --item '{"shop": "shop-41"}'
      crawlctl flow add november/shops --items more.jsonl --key more-1
    """
    from crawler_lifecycle.flows.cli.items import add_items
    from crawler_lifecycle.flows.model.requests import AppendMembers
    from crawler_lifecycle.managers.cli.flow_files import fragment_in
    from crawler_lifecycle.model.requests import refusals_as_bad_input

    if texts or items is not None:
        if file is not None:
            raise click.UsageError("FILE, and --item or --items, exclude each other")
        add_items(flow, texts, items, spider, key, manager, actor, state, as_json=as_json)
        return
    if file is None:
        raise click.UsageError("expected FILE with --key, or --item or --items for a crawl manager")
    if key is None:
        raise click.UsageError("Missing option '--key'")
    fragment = fragment_in(file, workflow_name)
    with refusals_as_bad_input():
        request = AppendMembers(key=key, group=into, fragment=fragment, **on_record(actor))
    if needs_installation(fragment, state):
        answer = asyncio.run(open_direct(state, actor).flows.append(flow, request))
    else:
        answer = open_flows(state).append(flow, request)
    effect = f"{counted(answer.count, 'job')} added" if answer.changed else f"nothing added, the key {key!r} was used"
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
    from crawler_lifecycle.flows.model.requests import StartManager
    from crawler_lifecycle.model.requests import refusals_as_bad_input

    if ":" in target or target.endswith(".py"):
        return push_flow(definition_for(target, arguments, family, name, queue), open_direct, state, actor)
    with refusals_as_bad_input():
        request = StartManager(manager=target, family=family, arguments=tuple(arguments), **on_record(actor))
    flows = open_flows(state)
    check_arguments(flows.manager_definition(request))
    return flows.start_manager(request)
