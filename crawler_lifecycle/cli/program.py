"""The program `crawlctl` with all its commands.

Commands import heavy modules in their functions, so that a command loads only the modules in use: `crawlctl list` loads
no Temporal client.
"""

import click

from crawler_lifecycle import __version__
from crawler_lifecycle.cli import (
    admin,
    auditing,
    demo,
    fetching,
    flows,
    limiting,
    reading,
    running,
    scheduling,
    stopping,
    up,
)
from crawler_lifecycle.cli.common import WITHOUT_API
from crawler_lifecycle.cli.failures import EXIT_CODES, Commands
from crawler_lifecycle.cli.remote.choice import TYPED_API


@click.group(cls=Commands, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
@click.option(
    "--api",
    metavar="URL",
    help="Use the HTTP API at URL, with the token in CRAWLER_REMOTE__TOKEN_FILE or CRAWLER_REMOTE__TOKEN, in place of "
    "database and Temporal (default: $CRAWLER_REMOTE__URL).",
)
@click.pass_context
def main(ctx: click.Context, /, api: str | None) -> None:
    """Run web crawls and never lose track of a crawl.

    \b
    Start with:
      crawlctl demo            a crawl from start to finish, on this machine
      crawlctl up              the whole service on this machine, until Ctrl-C
      crawlctl run bookshop    start and watch a run
    """
    ctx.meta[TYPED_API] = api
    if api is not None and ctx.invoked_subcommand in WITHOUT_API:
        raise click.UsageError(
            f"the API has no equivalent for `{ctx.invoked_subcommand}`: call it without --api, on a machine "
            "of the installation"
        )


for command in (
    up.up,
    demo.demo,
    running.run,
    reading.list_runs,
    reading.crawlers,
    reading.show,
    running.watch,
    reading.logs,
    running.export,
    fetching.fetch,
    stopping.stop,
    stopping.resume,
    flows.flow,
    scheduling.schedule,
    limiting.limits,
    limiting.installation,
    auditing.audit,
    admin.token,
    admin.database,
    admin.doctor,
    admin.accept_namespace,
):
    main.add_command(command)
