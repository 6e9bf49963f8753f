"""The command that follows a flow to its end: watch.

If nothing happens for some seconds, lines about waiting jobs appear. The end has sums, ledgers of managers, failed
members, results and the picture.
"""

import asyncio
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from pydantic import Field

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.base.words import counted
from crawler_lifecycle.console.common import plain, print_json, standard_options
from crawler_lifecycle.console.failures import INTERRUPTED, NOT_COMPLETED, OK
from crawler_lifecycle.console.threads import iterate
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.cli.lines import cause_in_words, end_line, failed_lines, is_success
from crawler_lifecycle.flows.cli.manager_lines import item_lines, refused_lines, status_lines
from crawler_lifecycle.flows.cli.options import flow_argument, open_flows
from crawler_lifecycle.flows.model.manager_records import ItemRecord, ManagerStatus
from crawler_lifecycle.flows.model.records import FlowChange, FlowStatus, MemberRecord
from crawler_lifecycle.flows.model.requests import ItemFilter
from crawler_lifecycle.flows.model.values import untagged
from crawler_lifecycle.model.flow_states import FAILED, MemberState
from crawler_lifecycle.model.manager_items import ItemState
from crawler_lifecycle.model.outcome_words import FINISHED

if TYPE_CHECKING:
    from crawler_lifecycle.flows.client import ApiFlows
    from crawler_lifecycle.flows.commands.reading import FlowReader
    from crawler_lifecycle.flows.model.manager_records import ManagerStatus
    from crawler_lifecycle.flows.model.records import FlowChange, FlowStatus, MemberRecord

SILENT_SECONDS = 5.0
MOST_ERRORS = 3  # members with their tracebacks
LAST_LINES = 15  # lines of a traceback
MOST_ITEMS = 50  # a larger ledger is shown without its completed items
UNUSUAL = (ItemState.FAILED, ItemState.REFUSED, ItemState.CANCELLED)
REDRAW_SECONDS = 1.0  # the shown durations grow even if the flow does not change
LEAST_JOBS = 4  # jobs shown even if the terminal has too few rows
LINES_OF_FLOW = 4  # lines above and below the jobs


async def with_silences(changes: AsyncIterator[FlowChange]) -> AsyncIterator[FlowChange | None]:
    """Yield the changes, and None after SILENT_SECONDS without a change."""
    next_change = asyncio.ensure_future(anext(changes, None))
    try:
        while True:
            await asyncio.wait([next_change], timeout=SILENT_SECONDS)
            if not next_change.done():
                yield None
                continue
            change = next_change.result()
            if change is None:
                return
            next_change = asyncio.ensure_future(anext(changes, None))
            yield change
    finally:
        next_change.cancel()


def waiting_lines(flow: str, jobs: Iterable[MemberRecord]) -> Iterator[str]:
    """Yield a line for every cause of available jobs, unless a job is under way."""
    shown = list(jobs)
    if any(job.state is MemberState.EXECUTING for job in shown):
        return
    causes = Counter(cause_in_words(job.cause) for job in shown if job.state is MemberState.AVAILABLE)
    for cause, count in causes.items():
        if cause is not None:
            yield f"{flow}  waits      {counted(count, 'job')}: {cause}"


class FlowReport(Message):
    status: FlowStatus
    failed: list[MemberRecord] = Field(description="discarded and cancelled members")
    errors: dict[str, str] = Field(description="ends of tracebacks by path, for the first failed steps")
    results: Any = Field(description="recorded results by path, nested for sub-workflows; null if they are too large")
    results_problem: str | None = Field(default=None, description="why the results are left out")
    graph: str | None = None
    managers: list[ManagerStatus] = Field(default=[], description="the flow's crawl managers, with their sums")
    items: dict[str, list[ItemRecord]] = Field(
        default={}, description=f"ledgers by manager; beyond {MOST_ITEMS} items without completed items"
    )

    @property
    def is_success(self) -> bool:
        """Whether all jobs are completed, and all managers closed as finished."""
        return is_success(self.status.state) and is_finished(self.managers)

    @classmethod
    def read(cls, flows: "FlowReader", status: FlowStatus, *, graph: bool) -> "FlowReport":
        failed = list(flows.members(status.id, states=FAILED))
        errors = {job.path: flows.attempts(status.id, job.path)[-1].error for job in _tried(failed)[:MOST_ERRORS]}
        managers = list(flows.managers(status.id))
        results, problem = _results(flows, status.id)
        return cls(
            status=status,
            failed=failed,
            errors={path: error for path, error in errors.items() if error},
            results=results,
            results_problem=problem,
            managers=managers,
            items={manager.path: _ledger(flows, status.id, manager.path) for manager in managers},
            graph=flows.workflow(status.id).to_mermaid(states=True) if graph else None,
        )


def is_finished(managers: Iterable[ManagerStatus]) -> bool:
    """Return whether all managers are closed as finished."""
    return all(manager.close_reason == FINISHED for manager in managers)


async def until_paused(changes: AsyncIterator[FlowChange]) -> AsyncIterator[FlowChange]:
    """Yield the changes up to the flow's end, or up to a manager's pause by a failure."""
    async for change in changes:
        yield change
        if any(manager.problem is not None for manager in change.managers):
            return


def end_lines(end: FlowReport) -> Iterator[str]:
    yield end_line(end.status, end.managers)
    for manager in end.managers:
        yield from status_lines(manager)
        items = end.items.get(manager.path, [])
        yield from refused_lines(items, manager.counts.refused)
        if items:
            yield from item_lines(items, datetime.now(UTC))
    yield from failed_lines(end.failed)
    for path, error in end.errors.items():
        yield f"  {path}:"
        yield from (f"    {line}" for line in error.rstrip().splitlines()[-LAST_LINES:])
    if (more := len(_tried(end.failed)) - MOST_ERRORS) > 0:
        command = f"crawlctl flow jobs {shlex.quote(end.status.id)} --status discarded --attempts"
        yield f"  ... and {more} more (`{command}`)"
    if end.graph:
        yield ""
        yield end.graph.rstrip()


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


def _tried(failed: Iterable[MemberRecord]) -> list[MemberRecord]:
    """Return the failed steps with an attempt: an attempt has the text of the error."""
    return [job for job in failed if job.kind == "step" and job.attempt]


def _results(flows: "FlowReader", flow: str) -> tuple[Any, str | None]:
    """Return the results, or the problem of results that are too large: the flow has ended nevertheless."""
    try:
        return untagged(flows.results(flow)), None
    except BadInput as error:
        return None, error.expected


def _ledger(flows: "FlowReader", flow: str, manager: str) -> list[ItemRecord]:
    items = list(flows.items(flow, ItemFilter(manager=manager), limit=MOST_ITEMS + 1))
    if len(items) > MOST_ITEMS:
        return list(flows.items(flow, ItemFilter(manager=manager, states=UNUSUAL), limit=MOST_ITEMS))
    return items


async def _watch(flows: "ApiFlows", flow: str, *, as_json: bool) -> int:
    """Show the flow until its end, print the end, and return the exit status."""
    from crawler_lifecycle.flows.cli.lines import end_line, failed_lines, is_success

    changes = iterate(flows.follow(flow))
    try:
        status, jobs = await (_print_changes(changes) if as_json else show_changes(changes))
    except asyncio.CancelledError:  # Ctrl-C
        click.echo(f"\nflow {flow} continues: crawlctl flow watch {shlex.quote(flow)}", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    managers = flows.managers(flow)
    if not as_json:
        click.echo(end_line(plain(status), managers))
        for manager in plain(list(managers)):
            refused = ItemFilter(manager=manager.path, states=(ItemState.REFUSED,))
            first = list(islice(flows.items(flow, refused, page_size=1), 1)) if manager.counts.refused else []
            for line in (*status_lines(manager), *refused_lines(plain(first), manager.counts.refused)):
                click.echo(line)
        for line in failed_lines(plain(list(jobs.values()))):
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
