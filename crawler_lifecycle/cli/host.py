"""The command `host`, which runs a host of steps."""

import signal
from functools import partial
from pathlib import Path

import click

from crawler_lifecycle.console.common import Folder, api_option, json_option, state_option


@click.command()
@click.argument("modules", metavar="MODULE...", nargs=-1, required=True)
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="NAME",
    default=["default"],
    show_default=True,
    help="Queue of the steps and crawl managers; repeatable.",
)
@click.option("--flow", metavar="ID", help="Run only this flow's steps, pushed by `crawlctl flow run`.")
@click.option("--folder", type=Folder(path_type=Path), help="Further folder to search for modules, before all others.")
@click.option("--end-with-parent", is_flag=True, help="End when the parent process ends (Linux).")
@api_option
@state_option
@partial(json_option, expose_value=False)
def host(modules: tuple[str, ...], queues: tuple[str, ...], flow: str | None, folder: Path | None,
         end_with_parent: bool, state: Path | None) -> None:  # fmt: skip
    """Run the steps and crawl managers in modules or .py files until Ctrl-C.

    Start any number of hosts. The host needs the database and Temporal. After Ctrl-C or SIGTERM, functions under way
    may still end. The host withdraws all further begins for a later host.

    \b
    Examples:
      crawlctl host my_project.flows
      crawlctl host flows/books.py --queue big
    """
    from crawler_lifecycle.hosts import children

    if end_with_parent:
        children.end_with_parent(signal.SIGTERM)
    from crawler_lifecycle.processes import flows

    flows.run(modules, queues, folder, flow, state)
