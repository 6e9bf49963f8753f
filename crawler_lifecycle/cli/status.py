"""The command `status`, which shows the state in ten lines."""

from pathlib import Path

import click

from crawler_lifecycle.console.api_choice import open_connection
from crawler_lifecycle.console.common import print_answer, standard_options


@click.command()
@standard_options
def status(state: Path | None, as_json: bool) -> None:
    """Show what is open, waiting, stuck, failed and paused, and what needs a decision.

    \b
    Examples:
      crawlctl status
      crawlctl status --json | jq .attention
    """
    from crawler_lifecycle.cli.status_lines import status_lines
    from crawler_lifecycle.client.api import read_attention
    from crawler_lifecycle.limits.client import ApiLimits

    connection = open_connection(state)
    answer = {"installation": ApiLimits(connection).installation(), "attention": read_attention(connection)}
    print_answer(answer, lambda answer: status_lines(**answer), as_json=as_json)
