"""Commands that end a run or have it go on: stop, resume."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler_lifecycle.cli.common import json_option, print_json, state_option, user_name
from crawler_lifecycle.cli.failures import INTERRUPTED, OK

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from crawler_lifecycle.contract.records import RunDetails
    from crawler_lifecycle.contract.requests import StopRequest
    from crawler_lifecycle.control.control import Control
    from crawler_lifecycle.control.runs import Stopping


SILENT_SECONDS = 1.5


@click.command()
@click.argument("run")
@click.option("--force", is_flag=True, help="Make its jobs end at once, without the grace period.")
@click.option("--reason", help="Why, for the record.")
@click.option("--actor", help="Who asks, for the record; default: you.")
@click.option("--wait", is_flag=True, help="Show each phase until it is proved that nothing of RUN runs any more.")
@state_option
@json_option
def stop(run: str, force: bool, reason: str | None, actor: str | None, wait: bool, state: Path | None,
         as_json: bool) -> None:  # fmt: skip
    """Stops RUN: asks its jobs to end, and after its grace period makes them.

    What it has collected so far is still exported. A second stop with --force does not wait for the grace period.
    With --json, a line of JSON that tells what is on record and how its workflow was told; with --wait a second one,
    the run once it is proved.

    \b
    Examples:
      crawlctl stop 7 --reason "wrong arguments" --wait
      crawlctl stop 7 --force
    """
    from crawler_lifecycle.control.control import Control

    asked = make_stop(force=force, reason=reason, actor=actor)
    raise click.exceptions.Exit(asyncio.run(_stop(Control.open(state), run, asked, wait=wait, as_json=as_json)))


def make_stop(*, force: bool, reason: str | None, actor: str | None) -> "StopRequest":
    from pydantic import ValidationError

    from crawler_lifecycle.contract.requests import StopRequest, as_bad_input

    try:
        return StopRequest(force=force, reason=reason, actor=actor or user_name(), door="crawlctl")
    except ValidationError as error:
        raise as_bad_input(error) from error


async def _stop(control: "Control", run: str, asked: "StopRequest", *, wait: bool, as_json: bool) -> int:
    stopping = await _telling_a_delay(control.runs.stop(run, asked), run)
    if as_json:
        print_json(stopping)
    else:
        click.echo(_told(stopping))
    if not wait:
        return OK
    details = await _until_proved(control, stopping.run_id, as_json=as_json)
    if as_json:
        print_json(details)
    return OK


def _told(stopping: "Stopping") -> str:
    how = {
        "signal": "its workflow is told",
        "cancel": "its workflow took no signal and is cancelled, which means the same",
        "resume": "its workflow was not open and is resumed to stop it",
    }.get(stopping.told, f"its workflow will read that at its next look ({stopping.told})")
    if stopping.not_on_record is None:
        return f"run {stopping.run_id}: {stopping.intent} is on record, {how}"
    return (
        f"run {stopping.run_id}: {stopping.intent} is not on record yet ({stopping.not_on_record}); "
        f"{how}, and will put it on record when the database takes it"
    )


async def _telling_a_delay(stopping: "Awaitable[Stopping]", run: str) -> "Stopping":
    """Say on stderr that a stop takes long: a locked database or a slow Temporal made the command look dead."""
    task = asyncio.ensure_future(stopping)
    done, _ = await asyncio.wait([task], timeout=SILENT_SECONDS)
    if not done:
        click.echo(f"stop of run {run}: the database or Temporal answers slowly, waiting for it ...", err=True)
    return await task


async def _until_proved(control: "Control", run_id: int, *, as_json: bool) -> "RunDetails":
    from crawler_lifecycle.cli.screen import follow

    changes = control.runs.watch(run_id)
    try:
        return [each async for each in changes][-1] if as_json else await follow(changes)
    except asyncio.CancelledError:
        click.echo(f"\nthe stop of run {run_id} goes on: crawlctl watch {run_id}", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None


@click.command()
@click.argument("run")
@click.option(
    "--reopen", is_flag=True, help="Give the tasks of a run that FAILED, and did not succeed, another attempt."
)
@state_option
@json_option
def resume(run: str, reopen: bool, state: Path | None, as_json: bool) -> None:
    """Has RUN's workflow go on with it, for example after somebody terminated that.

    Whatever became of its jobs meanwhile is found out. If the workflow is open, nothing is started. Of a run that is
    over, its closing notice is sent if that was not delivered yet.

    \b
    Examples:
      crawlctl resume 7
      crawlctl resume 7 --reopen
    """
    from crawler_lifecycle.control.control import Control

    resumed = asyncio.run(Control.open(state).runs.resume(run, reopen=reopen))
    if as_json:
        print_json(resumed)
    else:
        record = resumed.run
        how = "goes on under" if resumed.started else "is under way already, by"
        click.echo(f"run {record.run_id} {how} workflow {record.workflow_id}, epoch {record.epoch}: {record.status}")
