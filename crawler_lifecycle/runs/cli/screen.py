"""Shows the progress of a run: drawn in place on a terminal, and as plain lines elsewhere."""

import asyncio
import re
import shutil
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from datetime import UTC, datetime

import click

from crawler_lifecycle.console.common import plain
from crawler_lifecycle.model.records import RunDetails
from crawler_lifecycle.runs.cli.progress_lines import change_lines, progress_lines

ANSI = re.compile(r"\x1b\[[0-9;]*m")  # a colour's control sequence, which takes no column
REDRAW_SECONDS = 1.0  # the shown durations grow even if the run does not change
LEAST_TASKS = 4  # tasks shown even if the terminal has too few rows
LINES_OF_RUN = 8  # usual number of lines above the tasks; a stop adds lines


async def follow(changes: AsyncIterator[RunDetails], *, verbose: bool = False) -> RunDetails:
    """Show every change, on a terminal in place, otherwise as plain lines. Return the last state of the run."""
    if sys.stdout.isatty():
        return await _draw(changes, verbose=verbose)
    last: RunDetails | None = None
    async for details in changes:
        shown: RunDetails = plain(details)  # without control characters, which a crawl may have printed
        for line in change_lines(last, shown, verbose=verbose):
            click.echo(" ".join(line.splitlines()))
        last = shown
    assert last is not None, "a watched run is there at least once"
    return last


async def _draw(changes: AsyncIterator[RunDetails], *, verbose: bool) -> RunDetails:
    """Draw the run at every change and every REDRAW_SECONDS. Return the last state of the run."""
    screen = Screen()
    last: RunDetails | None = None
    next_change = asyncio.ensure_future(anext(changes))
    try:
        with suppress(StopAsyncIteration):  # raised by `result` after the last change
            while True:
                await asyncio.wait([next_change], timeout=REDRAW_SECONDS)
                if next_change.done():
                    last = plain(next_change.result())
                    next_change = asyncio.ensure_future(anext(changes))
                if last is not None:
                    screen.show(progress_lines(last, datetime.now(UTC), _tasks_that_fit(), verbose=verbose))
    finally:
        next_change.cancel()
    assert last is not None, "a watched run is there at least once"
    return last


class Screen:
    """Lines on a terminal. A further `show` replaces the lines."""

    def __init__(self) -> None:
        self._height = 0

    def show(self, lines: Iterable[str]) -> None:
        width = shutil.get_terminal_size().columns
        shown = [_cut(line, width) for line in lines]
        cursor_up = f"\x1b[{self._height}F" if self._height else ""
        clear_below = "\x1b[J"
        sys.stdout.write(cursor_up + clear_below)
        click.echo("\n".join(shown))
        self._height = len(shown)


def _tasks_that_fit() -> int:
    """Return how many tasks fit under the run's own lines."""
    return max(LEAST_TASKS, shutil.get_terminal_size().lines - LINES_OF_RUN)


def _cut(line: str, width: int) -> str:
    """Return the line cut to the width, since a wrapped line would push the next lines down.

    A cut line loses its colours: a control sequence that is cut would spoil the terminal.
    """
    line = " ".join(line.splitlines())
    visible = ANSI.sub("", line)
    return line if len(visible) <= width else visible[: width - 1] + "…"
