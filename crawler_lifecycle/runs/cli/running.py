"""The commands that start, watch, export, stop or resume a run."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from crawler_lifecycle.clusters.cli import crawler_argument
from crawler_lifecycle.console.common import (
    plain,
    print_answer,
    print_json,
    standard_options,
    typed_api,
    user_name,
    verbose_option,
    with_state,
)
from crawler_lifecycle.console.failures import INTERRUPTED, NOT_COMPLETED, OK
from crawler_lifecycle.console.threads import call, iterate
from crawler_lifecycle.runs.cli.requests import (
    Arguments,
    make_request,
    make_stop,
    open_runs,
    record_options,
    run_argument,
    run_options,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from crawler_lifecycle.model.answers import Stopping
    from crawler_lifecycle.model.records import RunDetails
    from crawler_lifecycle.runs.client import ApiRuns
    from crawler_lifecycle.runs.commands.runs import RunCommands

SECONDS_UNTIL_NOTE = 3.0  # a stop that takes longer prints a note


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


@click.command()
@run_argument
@click.option("--reopen", is_flag=True, help="Give the unsuccessful tasks of a FAILED run another attempt.")
@standard_options
def resume(run: str, reopen: bool, state: Path | None, as_json: bool) -> None:
    """Give RUN a supervisor again, or reopen a failed RUN.

    A run loses its supervisor, for example, if its workflow is terminated. The new workflow looks at the jobs of RUN
    first. An open workflow is left alone. If RUN is over, an undelivered closing notice is sent.

    \b
    Examples:
      crawlctl resume 7
      crawlctl resume 7 --reopen
    """

    resumed = open_runs(state).resume(run, reopen=reopen, actor=user_name())
    if as_json:
        print_json(resumed)
    else:
        record = resumed.run
        state_words = "continues under" if resumed.started else "is under way already, by"
        click.echo(
            f"run {record.run_id} {state_words} workflow {record.workflow_id}, epoch {record.epoch}: {record.status}"
        )


class DirectRuns(Protocol):
    """The installation itself, for a stop without the API."""

    @property
    def runs(self) -> "RunCommands": ...


@click.command()
@run_argument
@click.option("--force", is_flag=True, help="Kill its jobs now, without the grace period.")
@record_options
@click.option("--wait", is_flag=True, help="Show every phase until no job of RUN is left, and the end of RUN.")
@click.option("--direct", is_flag=True, help="Without the API, on a machine of the installation: by its database and "
              "Temporal.")  # fmt: skip
@verbose_option
@standard_options
@click.pass_obj
def stop(open_direct: "Callable[[Path | None], DirectRuns]", run: str, force: bool, reason: str | None,
         actor: str | None, wait: bool, direct: bool, verbose: bool, state: Path | None,
         as_json: bool) -> None:  # fmt: skip
    """Stop RUN: its jobs are asked to end, later killed.

    The jobs are killed after the grace period. Items collected so far are still exported. A second stop with --force
    does not wait for the grace period. With --json, print the recorded stop and its way to the workflow as a line of
    JSON; with --wait also a second line, the run after its end.

    \b
    Examples:
      crawlctl stop 7 --reason "wrong arguments" --wait
      crawlctl stop 7 --force
      crawlctl stop 7 --direct
    """
    from crawler_lifecycle.runs.cli.details_lines import end_lines

    request = make_stop(force=force, reason=reason, actor=actor)
    if direct:
        if wait or typed_api() is not None:
            raise click.UsageError("--direct excludes --wait and --api")
        _print_stop(_noting_delay(open_direct(state).runs.stop(run, request), run), as_json=as_json)
        return
    runs = open_runs(state)
    stopping = _noting_delay(call(lambda: runs.stop(run, force=force, reason=reason, actor=actor or user_name())), run)
    _print_stop(stopping, as_json=as_json)
    if not wait:
        return
    details = asyncio.run(_until_proved(runs, stopping.run_id, verbose=verbose, as_json=as_json))
    if as_json:
        print_json(details)
    else:
        for line in end_lines(plain(details)):
            click.echo(line)


def _print_stop(stopping: "Stopping", *, as_json: bool) -> None:
    if as_json:
        print_json(stopping)
    else:
        click.echo(_stop_line(stopping))


def _stop_line(stopping: "Stopping") -> str:
    """Return a sentence: the request, and unusual circumstances on its way to the run's workflow."""
    from crawler_lifecycle.model.states import Intent

    request = f"{'Forced stop' if stopping.intent is Intent.FORCE else 'Stop'} requested for run {stopping.run_id}"
    # `told` is a key here; or, if Temporal did not answer, `later: ` with the problem
    way = {
        "signal": "",
        "cancel": "its workflow took no signal and is cancelled, with the same effect",
        "resume": "its workflow was not open, and is resumed to stop the run",
    }.get(stopping.told, f"its workflow will read the request at its next look ({stopping.told})")
    if stopping.not_on_record is not None:
        not_stored = (
            f"the request is not stored yet ({stopping.not_on_record}) and will be when the database takes writes"
        )
        way = f"{way}; {not_stored}" if way else not_stored
    return f"{request}: {way}" if way else request


def _noting_delay(stopping: "Awaitable[Stopping]", run: str) -> "Stopping":
    return asyncio.run(_with_note_about_delay(stopping, run))


async def _with_note_about_delay(stopping: "Awaitable[Stopping]", run: str) -> "Stopping":
    """Wait for the stop. After SECONDS_UNTIL_NOTE print a note on stderr, since a silent command seems to hang."""
    task = asyncio.ensure_future(stopping)
    try:
        done, _ = await asyncio.wait([task], timeout=SECONDS_UNTIL_NOTE)
        if not done:
            click.echo(f"stop of run {run}: the database or Temporal answers slowly, waiting for it ...", err=True)
        return await task
    except asyncio.CancelledError:  # Ctrl-C
        click.echo("\n" + with_state(f"run {run} may not be stopped: `crawlctl show {run}`"), err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None


async def _until_proved(runs: "ApiRuns", run_id: int, *, verbose: bool, as_json: bool) -> "RunDetails":
    """Wait until the run is over, which follows from the proof of the stop; without `as_json`, show every change."""
    from crawler_lifecycle.runs.cli.screen import follow

    changes = iterate(runs.watch(run_id))
    try:
        return [details async for details in changes][-1] if as_json else await follow(changes, verbose=verbose)
    except asyncio.CancelledError:
        click.echo("\n" + with_state(f"the stop of run {run_id} continues: `crawlctl watch {run_id}`"), err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
