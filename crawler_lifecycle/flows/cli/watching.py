"""The command that follows a flow to its end: watch."""

import asyncio
import shlex
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler_lifecycle.console.common import plain, print_json, standard_options
from crawler_lifecycle.console.failures import INTERRUPTED, NOT_COMPLETED, OK
from crawler_lifecycle.console.threads import iterate
from crawler_lifecycle.flows.cli.options import flow_argument, open_flows

if TYPE_CHECKING:
    from crawler_lifecycle.flows.client import ApiFlows
    from crawler_lifecycle.flows.model.answers import FlowChange, MemberRecord
    from crawler_lifecycle.flows.model.manager_records import ManagerStatus
    from crawler_lifecycle.flows.model.records import FlowStatus

REDRAW_SECONDS = 1.0  # the shown durations grow even if the flow does not change
LEAST_JOBS = 4  # jobs shown even if the terminal has too few rows
LINES_OF_FLOW = 4  # lines above and below the jobs


@click.command()
@flow_argument
@standard_options
def watch(flow: str, state: Path | None, as_json: bool) -> None:
    """Show FLOW live until its end. With --json, print a line of JSON with the changed jobs at every change.

    \b
    Examples:
      crawlctl flow watch nightly-2026-11-22 && echo completed
    """
    raise click.exceptions.Exit(asyncio.run(_watch(open_flows(state), flow, as_json=as_json)))


async def _watch(flows: "ApiFlows", flow: str, *, as_json: bool) -> int:
    """Show the flow until its end, print the end, and return the exit status."""
    from crawler_lifecycle.flows.cli.ends import is_finished
    from crawler_lifecycle.flows.cli.lines import end_line, failed_lines, is_success
    from crawler_lifecycle.flows.cli.manager_lines import status_lines

    changes = iterate(flows.follow(flow))
    try:
        status, jobs = await (_print_changes(changes) if as_json else show_changes(changes))
    except asyncio.CancelledError:  # Ctrl-C
        click.echo(f"\nflow {flow} continues: crawlctl flow watch {shlex.quote(flow)}", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    managers = flows.managers(flow)
    if not as_json:
        of_managers = [line for manager in plain(list(managers)) for line in status_lines(manager)]
        for line in (end_line(plain(status), managers), *of_managers, *failed_lines(plain(list(jobs.values())))):
            click.echo(line)
    return OK if is_success(status.state) and is_finished(managers) else NOT_COMPLETED


async def _print_changes(changes: "AsyncIterator[FlowChange]") -> "tuple[FlowStatus, dict[str, MemberRecord]]":
    """Print every change as a line with JSON. Return the last state."""
    status, jobs = None, dict[str, "MemberRecord"]()
    async for change in changes:
        print_json(change)
        status = change.status
    assert status is not None, "a watched flow is there at least once"
    return status, jobs


async def follow_quietly(changes: "AsyncIterator[FlowChange]") -> "tuple[FlowStatus, dict[str, MemberRecord]]":
    """Follow the flow without output. Return the last state."""
    status, jobs = None, dict[str, "MemberRecord"]()
    async for change in changes:
        status = change.status
        _update(jobs, change, list(change.jobs))
    assert status is not None, "a watched flow is there at least once"
    return status, jobs


async def show_changes(changes: "AsyncIterator[FlowChange]") -> "tuple[FlowStatus, dict[str, MemberRecord]]":
    """Show every change, on a terminal in place, otherwise as plain lines. Return the last state."""
    if sys.stdout.isatty():
        return await _draw(changes)
    from crawler_lifecycle.flows.cli.lines import change_lines, manager_change_lines
    from crawler_lifecycle.flows.cli.silences import waiting_lines, with_silences

    status, jobs = None, dict[str, "MemberRecord"]()
    managers: tuple[ManagerStatus, ...] = ()
    waits: list[str] = []
    async for change in with_silences(changes):
        if change is None:
            former, waits = (
                waits,
                [] if status is None else list(waiting_lines(status.name or status.id, jobs.values())),
            )
            for line in waits if waits != former else ():
                click.echo(line)
            continue
        status = plain(change.status)
        changed = plain(list(change.jobs))
        for line in change_lines(status.name or status.id, jobs, changed):
            click.echo(" ".join(line.splitlines()))
        for line in manager_change_lines(status.name or status.id, managers, plain(change.managers)):
            click.echo(line)
        managers = plain(change.managers)
        _update(jobs, change, changed)
    assert status is not None, "a watched flow is there at least once"
    return status, jobs


async def _draw(changes: "AsyncIterator[FlowChange]") -> "tuple[FlowStatus, dict[str, MemberRecord]]":
    """Draw the flow at every change and every REDRAW_SECONDS. Return the last state."""
    from crawler_lifecycle.flows.cli.lines import progress_lines
    from crawler_lifecycle.runs.cli.screen import Screen

    screen = Screen()
    status, jobs = None, dict[str, "MemberRecord"]()
    managers: tuple[ManagerStatus, ...] = ()
    next_change = asyncio.ensure_future(anext(changes))
    try:
        with suppress(StopAsyncIteration):  # raised by `result` after the last change
            while True:
                await asyncio.wait([next_change], timeout=REDRAW_SECONDS)
                if next_change.done():
                    change = next_change.result()
                    next_change = asyncio.ensure_future(anext(changes))
                    status, managers = plain(change.status), plain(change.managers)
                    _update(jobs, change, plain(list(change.jobs)))
                if status is not None:
                    screen.show(progress_lines(status, jobs, _jobs_that_fit(), managers))
    finally:
        next_change.cancel()
    assert status is not None, "a watched flow is there at least once"
    return status, jobs


def _update(jobs: "dict[str, MemberRecord]", change: "FlowChange", changed: "list[MemberRecord]") -> None:
    for path in change.removed:
        jobs.pop(path, None)
    jobs.update({job.path: job for job in changed})


def _jobs_that_fit() -> int:
    """Return how many jobs fit under the flow's own lines."""
    return max(LEAST_JOBS, shutil.get_terminal_size().lines - LINES_OF_FLOW)
