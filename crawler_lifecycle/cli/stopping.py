"""The commands that stop a run or give a run a supervisor again: stop, resume."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler_lifecycle.cli.common import open_access, print_json, standard_options
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
@click.option("--force", is_flag=True, help="Force its jobs to end at once, without the grace period.")
@record_options
@click.option("--wait", is_flag=True, help="Show every phase until the proof that no job of RUN runs.")
@standard_options
def stop(run: str, force: bool, reason: str | None, actor: str | None, wait: bool, state: Path | None,
         as_json: bool) -> None:  # fmt: skip
    """Stop RUN: ask its jobs to end, and force them to end after the grace period.

    Items collected so far are still exported. A second stop with --force does not wait for the grace period.
    With --json, print the recorded stop and its way to the workflow as a line of JSON; with --wait also a second line,
    the run after the proof.

    \b
    Examples:
      crawlctl stop 7 --reason "wrong arguments" --wait
      crawlctl stop 7 --force
    """

    request = make_stop(force=force, reason=reason, actor=actor)
    raise click.exceptions.Exit(asyncio.run(_stop(open_access(state), run, request, wait=wait, as_json=as_json)))


async def _stop(control: "Access", run: str, request: "StopRequest", *, wait: bool, as_json: bool) -> int:
    """Stop the run, with `wait` show the stop until its proof, and return the exit status."""
    stopping = await _with_note_about_delay(control.runs.stop(run, request), run)
    if as_json:
        print_json(stopping)
    else:
        click.echo(_stop_line(stopping))
    if not wait:
        return OK
    details = await _until_proved(control, stopping.run_id, as_json=as_json)
    if as_json:
        print_json(details)
    return OK


def _stop_line(stopping: "Stopping") -> str:
    """Return a sentence: whether the stop is on record, and how the run's workflow learns about the stop."""
    # `told` is a key here; or, if Temporal did not answer, `later: ` with the problem
    effect = {
        "signal": "its workflow is told",
        "cancel": "its workflow took no signal and is cancelled, with the same effect",
        "resume": "its workflow was not open, and is resumed to stop the run",
    }.get(stopping.told, f"its workflow will read the stop at its next look ({stopping.told})")
    if stopping.not_on_record is None:
        return f"run {stopping.run_id}: {stopping.intent} is on record, {effect}"
    return (
        f"run {stopping.run_id}: {stopping.intent} is not on record yet ({stopping.not_on_record}); "
        f"{effect}, and will put the stop on record when the database takes writes"
    )


async def _with_note_about_delay(stopping: "Awaitable[Stopping]", run: str) -> "Stopping":
    """Wait for the stop. After SECONDS_UNTIL_NOTE print a note on stderr, since a silent command seems to hang."""
    task = asyncio.ensure_future(stopping)
    done, _ = await asyncio.wait([task], timeout=SECONDS_UNTIL_NOTE)
    if not done:
        click.echo(f"stop of run {run}: the database or Temporal answers slowly, waiting for it ...", err=True)
    return await task


async def _until_proved(control: "Access", run_id: int, *, as_json: bool) -> "RunDetails":
    """Wait until the run is over, which follows from the proof of the stop; without `as_json`, show every change."""
    from crawler_lifecycle.cli.screen import follow

    changes = control.runs.watch(run_id)
    try:
        return [details async for details in changes][-1] if as_json else await follow(changes)
    except asyncio.CancelledError:
        click.echo(f"\nthe stop of run {run_id} goes on: crawlctl watch {run_id}", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None


@click.command()
@click.argument("run")
@click.option("--reopen", is_flag=True, help="Give the unsuccessful tasks of a FAILED run another attempt.")
@standard_options
def resume(run: str, reopen: bool, state: Path | None, as_json: bool) -> None:
    """Give RUN a supervisor again, for example after a termination of its workflow.

    The workflow looks at the jobs of RUN first. An open workflow is left alone. If RUN is over, an undelivered closing
    notice is sent.

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
        state_words = "goes on under" if resumed.started else "is under way already, by"
        click.echo(
            f"run {record.run_id} {state_words} workflow {record.workflow_id}, epoch {record.epoch}: {record.status}"
        )
