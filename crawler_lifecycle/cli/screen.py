"""Shows the progress of a run: drawn in place on a terminal, and as plain lines elsewhere."""

import asyncio
import re
import shutil
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from datetime import UTC, datetime

import click

from crawler_lifecycle.cli.common import plain
from crawler_lifecycle.cli.progress_lines import change_lines, progress_lines
from crawler_lifecycle.contract.records import RunDetails

ANSI = re.compile(r"\x1b\[[0-9;]*m")
REDRAW_SECONDS = 1.0
LEAST_TASKS = 4  # shown also on a low terminal
LINES_OF_RUN = 8  # above the tasks; a run with a stop has more


async def follow(changes: AsyncIterator[RunDetails]) -> RunDetails:
    """Show every change. Return the run at its end."""
    if sys.stdout.isatty():
        return await _draw(changes)
    last: RunDetails | None = None
    async for details in changes:
        shown: RunDetails = plain(details)
        for line in change_lines(last, shown):
            click.echo(" ".join(line.splitlines()))
        last = shown
    assert last is not None, "a watched run is there at least once"
    return last


async def _draw(changes: AsyncIterator[RunDetails]) -> RunDetails:
    """Draw the run at every change, and every second for the durations."""
    screen = Screen()
    last: RunDetails | None = None
    following = asyncio.ensure_future(anext(changes))
    try:
        with suppress(StopAsyncIteration):
            while True:
                await asyncio.wait([following], timeout=REDRAW_SECONDS)
                if following.done():
                    last = plain(following.result())
                    following = asyncio.ensure_future(anext(changes))
                if last is not None:
                    screen.show(progress_lines(last, datetime.now(UTC), _tasks_that_fit()))
    finally:
        following.cancel()
    assert last is not None, "a watched run is there at least once"
    return last


class Screen:
    """Lines on a terminal. New lines replace the lines that were shown before."""

    def __init__(self) -> None:
        self._height = 0

    def show(self, lines: Iterable[str]) -> None:
        width = shutil.get_terminal_size().columns
        shown = [_cut(line, width) for line in lines]
        up = f"\x1b[{self._height}F" if self._height else ""
        sys.stdout.write(f"{up}\x1b[J")
        click.echo("\n".join(shown))
        self._height = len(shown)


def _tasks_that_fit() -> int:
    """Return how many tasks fit under the run's own lines."""
    return max(LEAST_TASKS, shutil.get_terminal_size().lines - LINES_OF_RUN)


def _cut(line: str, width: int) -> str:
    """Return the line cut to the width. A wrapped line takes more rows, and the next lines would begin too low."""
    line = " ".join(line.splitlines())
    return line if len(ANSI.sub("", line)) <= width else ANSI.sub("", line)[: width - 1] + "…"
