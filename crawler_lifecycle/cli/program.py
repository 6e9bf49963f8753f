"""The program `crawlctl` with all its commands.

Commands import heavy modules in their functions, so that a command loads only the modules in use: `crawlctl list` loads
no Temporal client.
"""

import click

from crawler_lifecycle import __version__
from crawler_lifecycle.cli import (
    admin,
    auditing,
    cataloguing,
    completion,
    demo,
    fetching,
    flows,
    limiting,
    pruning,
    reading,
    running,
    scheduling,
    status,
    stopping,
    triggers,
    up,
)
from crawler_lifecycle.cli.direct import open_control
from crawler_lifecycle.cli.failures import EXIT_CODES, Commands


@click.group(
    cls=Commands, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"], "obj": open_control}
)
@click.version_option(__version__)
def main() -> None:
    """Start, watch and stop web crawls.

    --state, --json and --api may stand before a command or after it.

    \b
    Start with:
      crawlctl demo            a crawl from start to finish, on this machine
      crawlctl up              the whole service on this machine, until Ctrl-C
      crawlctl run bookshop    start and watch a run
    """


for command in (
    up.up,
    demo.demo,
    running.run,
    status.status,
    reading.list_runs,
    cataloguing.crawlers,
    reading.show,
    running.watch,
    reading.logs,
    running.export,
    fetching.fetch,
    stopping.stop,
    stopping.resume,
    flows.flow,
    scheduling.schedule,
    triggers.triggers,
    limiting.limits,
    limiting.installation,
    auditing.audit,
    pruning.prune,
    admin.token,
    admin.database,
    admin.doctor,
    admin.accept_namespace,
    completion.completion,
):
    main.add_command(command)
