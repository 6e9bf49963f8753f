"""The commands that stop a run or give a run a supervisor again: stop, resume."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler_lifecycle.cli.common import (
    open_access,
    plain,
    print_json,
    standard_options,
    verbose_option,
    with_state,
)
from crawler_lifecycle.cli.failures import INTERRUPTED, OK
from crawler_lifecycle.cli.requests import make_stop, record_options

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from crawler_lifecycle.cli.access import Access
    from crawler_lifecycle.contract.answers import Stopping
    from crawler_lifecycle.contract.records import RunDetails
    from crawler_lifecycle.contract.requests import StopRequest

SECONDS_UNTIL_NOTE = 3.0  # a stop that takes longer prints a note


@click.command()
@click.argument("run")
@click.option("--force", is_flag=True, help="Kill its jobs now, without the grace period.")
@record_options
@click.option("--wait", is_flag=True, help="Show every phase until no job of RUN is left, and the end of RUN.")
@verbose_option
@standard_options
def stop(run: str, force: bool, reason: str | None, actor: str | None, wait: bool, verbose: bool, state: Path | None,
         as_json: bool) -> None:  # fmt: skip
    """Stop RUN: its jobs are asked to end, later killed.

    The jobs are killed after the grace period. Items collected so far are still exported. A second stop with --force
    does not wait for the grace period. With --json, print the recorded stop and its way to the workflow as a line of
    JSON; with --wait also a second line, the run after its end.

    \b
    Examples:
      crawlctl stop 7 --reason "wrong arguments" --wait
      crawlctl stop 7 --force
    """
    request = make_stop(force=force, reason=reason, actor=actor)
    work = _stop(open_access(state), run, request, wait=wait, verbose=verbose, as_json=as_json)
    raise click.exceptions.Exit(asyncio.run(work))


async def _stop(
    control: "Access", run: str, request: "StopRequest", *, wait: bool, verbose: bool, as_json: bool
) -> int:
    """Stop the run, with `wait` show the stop until the run's end, and return the exit status."""
    from crawler_lifecycle.cli.details_lines import end_lines

    stopping = await _with_note_about_delay(control.runs.stop(run, request), run)
    if as_json:
        print_json(stopping)
    else:
        click.echo(_stop_line(stopping))
    if not wait:
        return OK
    details = await _until_proved(control, stopping.run_id, verbose=verbose, as_json=as_json)
    if as_json:
        print_json(details)
    else:
        for line in end_lines(plain(details)):
            click.echo(line)
    return OK


def _stop_line(stopping: "Stopping") -> str:
    """Return a sentence: the request, and unusual circumstances on its way to the run's workflow."""
    from crawler_lifecycle.contract.states import Intent

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


async def _until_proved(control: "Access", run_id: int, *, verbose: bool, as_json: bool) -> "RunDetails":
    """Wait until the run is over, which follows from the proof of the stop; without `as_json`, show every change."""
    from crawler_lifecycle.cli.screen import follow

    changes = control.runs.watch(run_id)
    try:
        return [details async for details in changes][-1] if as_json else await follow(changes, verbose=verbose)
    except asyncio.CancelledError:
        click.echo("\n" + with_state(f"the stop of run {run_id} continues: `crawlctl watch {run_id}`"), err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None


@click.command()
@click.argument("run")
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

    resumed = asyncio.run(open_access(state).runs.resume(run, reopen=reopen))
    if as_json:
        print_json(resumed)
    else:
        record = resumed.run
        state_words = "continues under" if resumed.started else "is under way already, by"
        click.echo(
            f"run {record.run_id} {state_words} workflow {record.workflow_id}, epoch {record.epoch}: {record.status}"
        )
