"""The commands that start, watch or export a run: run, watch, export."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crawler_lifecycle.clusters.cli.cataloguing import crawler_argument
from crawler_lifecycle.console.common import (
    plain,
    print_answer,
    print_json,
    standard_options,
    user_name,
    verbose_option,
    with_state,
)
from crawler_lifecycle.console.failures import INTERRUPTED, NOT_COMPLETED, OK
from crawler_lifecycle.console.threads import iterate
from crawler_lifecycle.runs.cli.opening import open_runs, run_argument
from crawler_lifecycle.runs.cli.requests import Arguments, make_request, run_options

if TYPE_CHECKING:
    from crawler_lifecycle.model.records import RunDetails
    from crawler_lifecycle.runs.client.runs import ApiRuns


@click.command()
@crawler_argument
@run_options
@click.option(
    "--trigger",
    type=click.Choice(["manual", "api"]),
    default="manual",
    show_default=True,
    help="Who starts the run: a person (manual) or a program (api). Scheduled runs are started by their schedule.",
)
@click.option("--requested-by", help="Name for the record; default: your login name.")
@click.option("--detach", is_flag=True, help="Print the run and return at once.")
@verbose_option
@standard_options
def run(crawler: str, arguments: Arguments, detach: bool, verbose: bool, state: Path | None, as_json: bool,
        **options: Any) -> None:  # fmt: skip
    """Start a run of CRAWLER and watch the run to its end.

    \b
    Examples:
      crawlctl run bookshop --tasks 2
      crawlctl run sleeper --arg seconds=60 --max-duration 5m --detach
    """

    options["requested_by"] = options["requested_by"] or user_name()
    request, runs = make_request(crawler, arguments, options), open_runs(state)
    started = runs.start(request)
    if detach:
        if as_json:
            print_json(started)
        else:
            click.echo(f"run {started.run_id} ({started.run_uid}), workflow {started.workflow_id}")
        return
    if not as_json:
        click.echo(f"run {started.run_id} started" + (f": workflow {started.workflow_id}" if verbose else ""))
    raise click.exceptions.Exit(asyncio.run(_watch(runs, started.run_id, verbose=verbose, as_json=as_json)))


@click.command()
@run_argument
@verbose_option
@standard_options
def watch(run: str, verbose: bool, state: Path | None, as_json: bool) -> None:
    """Show RUN live until RUN is over. With --json, print a line of JSON at every change.

    \b
    Examples:
      crawlctl watch 7
      crawlctl watch 7 && echo completed
    """

    raise click.exceptions.Exit(asyncio.run(_watch(open_runs(state), run, verbose=verbose, as_json=as_json)))


async def _watch(runs: "ApiRuns", run: int | str, *, verbose: bool, as_json: bool) -> int:
    """Show the run until the run is over, and return the exit status."""
    from crawler_lifecycle.model.states import RunStatus
    from crawler_lifecycle.runs.cli.details_lines import end_lines
    from crawler_lifecycle.runs.cli.screen import follow

    try:
        changes = iterate(runs.watch(run))
        details = await (_print_changes(changes) if as_json else follow(changes, verbose=verbose))
    except asyncio.CancelledError:  # Ctrl-C
        click.echo("\n" + with_state(f"run {run} continues: `crawlctl watch {run}`"), err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    if not as_json:
        for line in end_lines(plain(details)):
            click.echo(line)
    return OK if details.run.status is RunStatus.COMPLETED else NOT_COMPLETED


async def _print_changes(changes: "AsyncIterator[RunDetails]") -> "RunDetails":
    """Print every change as a line with JSON. Return the run's last state."""
    last: RunDetails | None = None
    async for details in changes:
        print_json(details)
        last = details
    assert last is not None, "a watched run is there at least once"
    return last


@click.command()
@run_argument
@standard_options
def export(run: str, state: Path | None, as_json: bool) -> None:
    """Announce the end of RUN and archive its files again.

    Nothing is crawled again. The event has the same id as before, so receivers recognise the repetition.
    """
    from crawler_lifecycle.runs.cli.details_lines import export_line

    runs = open_runs(state)
    runs.export(run, actor=user_name())
    overview = runs.overview(run)
    ends = overview.run.end_number
    print_answer(overview.exports, lambda exports: (export_line(export, ends) for export in exports), as_json=as_json)
