"""The program `crawlctl` with all its commands.

A command is imported when it is called, and its module imports heavy modules in its functions: `crawlctl list` loads
neither the commands for flows nor a Temporal client.
"""

from importlib import import_module

import click

from crawler_lifecycle import __version__
from crawler_lifecycle.assembly.direct import open_control
from crawler_lifecycle.console.failures import EXIT_CODES, Commands

PLACES = {
    "up": "crawler_lifecycle.stack.up:up",
    "demo": "crawler_lifecycle.stack.demo:demo",
    "host": "crawler_lifecycle.cli.host:host",
    "run": "crawler_lifecycle.runs.cli.running:run",
    "status": "crawler_lifecycle.cli.status:status",
    "list": "crawler_lifecycle.runs.cli.reading:list_runs",
    "crawlers": "crawler_lifecycle.clusters.cli:crawlers",
    "show": "crawler_lifecycle.runs.cli.reading:show",
    "watch": "crawler_lifecycle.runs.cli.running:watch",
    "usage": "crawler_lifecycle.runs.cli.usage:usage",
    "logs": "crawler_lifecycle.runs.cli.reading:logs",
    "export": "crawler_lifecycle.runs.cli.running:export",
    "fetch": "crawler_lifecycle.runs.cli.reading:fetch",
    "stop": "crawler_lifecycle.runs.cli.running:stop",
    "resume": "crawler_lifecycle.runs.cli.running:resume",
    "flow": "crawler_lifecycle.cli.flows:flow",
    "schedule": "crawler_lifecycle.schedules.cli.scheduling:schedule",
    "triggers": "crawler_lifecycle.triggers.cli:triggers",
    "limits": "crawler_lifecycle.limits.cli:limits",
    "installation": "crawler_lifecycle.limits.cli:installation",
    "audit": "crawler_lifecycle.audits.cli:audit",
    "prune": "crawler_lifecycle.retention.cli:prune",
    "token": "crawler_lifecycle.cli.admin:token",
    "db": "crawler_lifecycle.cli.admin:database",
    "doctor": "crawler_lifecycle.cli.admin:doctor",
    "accept-namespace": "crawler_lifecycle.cli.admin:accept_namespace",
    "completion": "crawler_lifecycle.console.completion:completion",
}


class Program(Commands):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's argument)
        return sorted(PLACES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in PLACES and cmd_name not in self.commands:
            module, _, name = PLACES[cmd_name].partition(":")
            self.add_command(getattr(import_module(module), name))
        return super().get_command(ctx, cmd_name)


@click.group(
    cls=Program, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"], "obj": open_control}
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
