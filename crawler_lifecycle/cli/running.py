"""Commands about one run as it goes: run, watch, export."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crawler_lifecycle.cli.common import Duration, KeyValue, json_option, plain, print_json, state_option
from crawler_lifecycle.cli.failures import INTERRUPTED, NOT_COMPLETED, OK

if TYPE_CHECKING:
    from crawler_lifecycle.contract.records import RunDetails
    from crawler_lifecycle.contract.requests import RunRequest
    from crawler_lifecycle.control.control import Control
    from crawler_lifecycle.control.reading import RunReader


@click.command()
@click.argument("crawler")
@click.option("--arg", "arguments", type=KeyValue(), multiple=True, help="Passed to every task; may be repeated.")
@click.option("--tasks", type=int, help="Number of tasks; default: what the catalogue says.")
@click.option("--max-parallel", type=int, help="Tasks in the cluster at once.")
@click.option("--start-limit", type=Duration(), help="How long the main job may wait to start, e.g. 30s.")
@click.option("--max-duration", type=Duration(), help="How long the run may take in all, e.g. 2h.")
@click.option("--grace", type=Duration(), help="From a stop until it is forced, e.g. 30s.")
@click.option("--allowed-failures", type=float, default=0.0, help="Share of tasks that may fail, 0 to 1.")
@click.option("--trigger", type=click.Choice(["manual", "api", "scheduled"]), default="manual", show_default=True)
@click.option("--requested-by", help="Who asked, for the record.")
@click.option("--detach", is_flag=True, help="Do not watch: print the run and return.")
@state_option
@json_option
def run(crawler: str, arguments: tuple[tuple[str, str], ...], detach: bool, state: Path | None, as_json: bool,
        **options: Any) -> None:  # fmt: skip
    """Starts a run of CRAWLER and watches it to its end.

    \b
    Examples:
      crawlctl run bookshop --tasks 2
      crawlctl run sleeper --arg seconds=60 --max-duration 5m --detach
    """
    from crawler_lifecycle.control.control import Control

    request = make_request(crawler, arguments, options)
    raise click.exceptions.Exit(asyncio.run(_run(Control.open(state), request, detach=detach, as_json=as_json)))


DURATIONS = ("start_limit", "max_duration", "grace")


def make_request(crawler: str, arguments: tuple[tuple[str, str], ...], options: dict[str, Any]) -> "RunRequest":
    from pydantic import ValidationError

    from crawler_lifecycle.contract.requests import RunRequest, as_bad_input
    from crawler_lifecycle.contract.states import Trigger

    renamed = {
        name + ("_seconds" if name in DURATIONS else ""): value for name, value in options.items() if value is not None
    }
    renamed["trigger"] = Trigger(renamed.get("trigger", Trigger.MANUAL))
    try:
        return RunRequest(crawler=crawler, arguments=dict(arguments), **renamed)
    except ValidationError as error:
        raise as_bad_input(error) from error


async def _run(control: "Control", request: "RunRequest", *, detach: bool, as_json: bool) -> int:
    started = await control.runs.start(request)
    if detach:
        if as_json:
            print_json(started)
        else:
            click.echo(f"run {started.run_id} ({started.run_uid}), workflow {started.workflow_id}")
        return OK
    if not as_json:
        click.echo(f"run {started.run_id} started: workflow {started.workflow_id}")
    return await _watch(control.runs, started.run_id, as_json=as_json)


@click.command()
@click.argument("run")
@state_option
@json_option
def watch(run: str, state: Path | None, as_json: bool) -> None:
    """Shows RUN live until it is over. With --json, a line of JSON at every change.

    \b
    Examples:
      crawlctl watch 7
      crawlctl watch 7 && echo completed
    """
    from crawler_lifecycle.control.context import Context
    from crawler_lifecycle.control.reading import RunReader

    raise click.exceptions.Exit(asyncio.run(_watch(RunReader(Context.open(state)), run, as_json=as_json)))


async def _watch(runs: "RunReader", run: int | str, *, as_json: bool) -> int:
    from crawler_lifecycle.cli.screen import follow
    from crawler_lifecycle.contract.states import RunStatus

    try:
        changes = runs.watch(run)
        details = await (_print_changes(changes) if as_json else follow(changes))
    except asyncio.CancelledError:
        click.echo(f"\nrun {run} goes on: crawlctl watch {run}", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    if not as_json:
        _print_end(details)
    return OK if details.run.status is RunStatus.COMPLETED else NOT_COMPLETED


async def _print_changes(changes: "AsyncIterator[RunDetails]") -> "RunDetails":
    last: RunDetails | None = None
    async for details in changes:
        print_json(details)
        last = details
    assert last is not None, "a run that is watched has been seen once"
    return last


def _print_end(details: "RunDetails") -> None:
    from crawler_lifecycle.cli.render import coloured, counts, export_line, why

    details = plain(details)
    run = details.run
    click.echo(f"run {run.run_id} ended {coloured(run.status)} ({run.reason}): {counts(run.tasks)}")
    if reason := why(run):
        click.echo(f"  why: {reason}")
    for export in details.exports:
        click.echo(f"  {export_line(export, run.end_number)}")


@click.command()
@click.argument("run")
@state_option
@json_option
def export(run: str, state: Path | None, as_json: bool) -> None:
    """Announces the end of RUN and archives its files again, without crawling again.

    The event carries the same id as the first time, so that a receiver sees it once.
    """
    from crawler_lifecycle.control.control import Control

    details = asyncio.run(Control.open(state).runs.export(run))
    if as_json:
        print_json(details.exports)
    else:
        from crawler_lifecycle.cli.render import export_line

        for each in plain(details.exports):
            click.echo(export_line(each, details.run.end_number))
