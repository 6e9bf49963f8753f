"""Turns times, statuses, counts and tables into text."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import click
from pydantic import JsonValue

from crawler_lifecycle.base.words import utc_text
from crawler_lifecycle.model.crawl_results import FIRST_STATS, Number
from crawler_lifecycle.model.outcome_words import FINISHED
from crawler_lifecycle.model.reasons import WAITS_FOR
from crawler_lifecycle.model.states import TaskStatus

COLOURS = {
    "COMPLETED": "green", "SUCCEEDED": "green", "FAILED": "red", "LOST": "red", "STOPPED": "yellow",
    "STOPPING": "yellow", "PROCESSING": "cyan", "RUNNING": "cyan",
    "completed": "green", "discarded": "red", "cancelled": "yellow", "paused": "yellow", "retryable": "yellow",
    "executing": "cyan",
}  # fmt: skip

GAP = "  "  # between two columns
LEAST_LAST_COLUMN = 20  # characters


def waiting_words(cause: str) -> str:
    """Return words for the cause of a task; a cause outside of WAITS_FOR is a trouble and is shown by its own name."""
    return f"waits for {WAITS_FOR[cause]}" if cause in WAITS_FOR else f"waits: {cause.replace('_', ' ')}"


def rfc3339(moment: datetime | None) -> str:
    """Return for example `2026-11-20T03:00:00Z`; `-` without a time."""
    return utc_text(moment) if moment else "-"


def duration(time: timedelta) -> str:
    """Return for example `45s`, `12m05s` or `3h20m`."""
    seconds = max(0, int(time.total_seconds()))
    hours, minutes = seconds // 3600, seconds // 60 % 60
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{seconds % 60:02}s" if minutes else f"{seconds}s"


def moment_text(moment: datetime | None, now: datetime, width: int | None) -> str:
    """Return a time for a table: relative, such as `3h20m ago` or `in 12d`, on a terminal with this width, else as
    RFC 3339.
    """
    if moment is None or width is None:
        return rfc3339(moment)
    time = abs(now - moment)
    words = f"{time.days}d" if time.days > 1 else duration(time)
    return f"in {words}" if moment > now else f"{words} ago"


def coloured(status: str, width: int = 0, *, is_odd: bool = False) -> str:
    """Return the status in its colour. `is_odd`, or a word beside the status: yellow."""
    return click.style(status.ljust(width), fg="yellow" if is_odd or ", " in status else COLOURS.get(status))


def is_odd(outcome: str | None) -> bool:
    """Return whether a completed run or job has another outcome than the usual one."""
    return outcome not in (None, FINISHED)


def counts(tasks: Mapping[TaskStatus, int]) -> str:
    """Return for example `2 RUNNING, 1 FAILED`, in the order of TaskStatus."""
    return ", ".join(f"{tasks[status]} {status}" for status in TaskStatus if tasks.get(status)) or "none"


def crawled(stats: Mapping[str, JsonValue] | None) -> str:
    """Return the best known sums in a few words, such as `60 items, 73 pages, 1.2 MB, 2 errors`."""
    known = [(name, value) for name in FIRST_STATS if isinstance(value := (stats or {}).get(name), int | float)]
    return ", ".join(
        size(value) if name == "bytes" else f"{value:,} {name.removesuffix('s') if value == 1 else name}"
        for name, value in known
    )


def size(number: Number) -> str:
    """Return a number of bytes with three digits and its unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(number) < 999.5:  # 999.5 would be rounded to 1e+03
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:,.1f} TB"


def facts(rows: Sequence[tuple[str, object]]) -> Iterator[str]:
    """Yield a line with name and value for every row; rows without a value are left out."""
    for name, value in rows:
        if value:
            yield f"  {name:13} {value}"


def named(values: Mapping[str, str]) -> str:
    """Return arguments or settings as `name=value`, with blanks between."""
    return " ".join(f"{name}={value}" for name, value in values.items())


def fitted(rows: Sequence[Sequence[str]], width: int, expendable: Sequence[str]) -> Sequence[Sequence[str]]:
    """Return a table's rows, fitted to the width.

    Expendable columns are left out, from the first title on, until LEAST_LAST_COLUMN characters remain for the last
    column. Longer texts in the last column are cut. If too few characters remain, so is the widest other column.
    """
    columns = list(range(len(rows[0])))
    widths = [max(len(row[column]) for row in rows) for column in columns]
    for title in ("", *expendable):
        columns = [column for column in columns if rows[0][column] != title]
        room = width - sum(widths[column] + len(GAP) for column in columns[:-1])
        if room >= min(LEAST_LAST_COLUMN, widths[columns[-1]]):
            break
    *others, last = columns
    missing = max(0, min(LEAST_LAST_COLUMN, widths[last]) - room)
    widest = max(others, key=widths.__getitem__)
    cut = min(missing, widths[widest] - len(rows[0][widest]))  # the title stays whole
    widths[widest] -= cut
    widths[last] = max(1, room + cut)
    return [[shortened(row[column], widths[column]) for column in columns] for row in rows]


def shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def table(
    rows: Sequence[Sequence[str]], status_column: int | None = None, odd_rows: Collection[int] = ()
) -> Iterator[str]:
    """Yield a line for every row, with aligned columns. The first row has the titles; one column may have statuses."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        is_title = number == 0
        if status_column is not None and not is_title:
            cells[status_column] = coloured(row[status_column], widths[status_column], is_odd=number in odd_rows)
        yield GAP.join(cells).rstrip()
