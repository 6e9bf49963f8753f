"""Turns crawl managers into text: their numbers, their ledgers of items, and their problems."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import click

from crawler_lifecycle.base.words import counted
from crawler_lifecycle.console.common import plain
from crawler_lifecycle.console.words import coloured, duration, rfc3339, table
from crawler_lifecycle.flows.model.manager_records import ItemAttempt, ItemRecord, ItemSums, ManagerStatus, OutputLine
from crawler_lifecycle.flows.model.turns import Counts
from crawler_lifecycle.flows.rules.managers import NO_REACTION, without_host
from crawler_lifecycle.model.manager_items import CodeProblem, ItemState

ITEM_COLUMNS = ("ITEM", "CRAWLER", "STATE", "ATTEMPT", "OUTCOME", "SINCE", "TOOK", "RUN", "PARAMETERS", "WHY")
ATTEMPT_COLUMNS = ("ITEM", "ATTEMPT", "CRAWLER", "RUN", "OUTCOME", "STARTED", "ENDED", "TOOK", "CHANGED ARGUMENTS")
CSV_COLUMNS = (
    "number", "crawler", "state", "generation", "attempt", "outcome", "run_id", "started_at", "ended_at", "due",
    "problem", "tags", "spider_args",
)  # fmt: skip
LAST_LINES = 15  # lines from a traceback
LONGEST = 60  # longest value in a table
# open items come first, and then items with a problem
ORDER = ("running", "waiting", "delayed", "retrying", "failed", "refused", "cancelled", "completed", "repeated")


def count_words(counts: Counts) -> str:
    """Return for example `4 running, 36 waiting, 5 duplicates skipped`."""
    return _number_words(counts, ORDER) or "no items yet"


def sum_words(sums: ItemSums) -> str:
    """Return for example `40 items: 4 open, 36 completed`, for lists of flows."""
    parts = _number_words(sums, ("open", "completed", "failed", "refused", "cancelled", "repeated"))
    problem = "  paused by a failure" if sums.has_problem else ""
    return counted(sums.total, "item") + (f": {parts}" if parts else "") + problem


def _number_words(numbers: Counts | ItemSums, names: Sequence[str]) -> str:
    """Return the numbers above zero with their names. `repeated`: parameter sets whose key is known."""
    known = [(name, number) for name in names if (number := getattr(numbers, name))]
    return ", ".join(
        f"{counted(number, 'duplicate')} skipped" if name == "repeated" else f"{number} {name}"
        for name, number in known
    )


def total(counts: Counts) -> int:
    return sum(getattr(counts, name) for name in ORDER if name != "repeated")


def settled(counts: Counts) -> int:
    return counts.completed + counts.failed + counts.cancelled + counts.refused


def status_lines(manager: ManagerStatus) -> Iterator[str]:
    """Yield a manager with numbers, sums, tags and problem."""
    end = f"  closed: {manager.close_reason}" if manager.closed_at is not None else ""
    yield f"  {click.style(manager.path, bold=True)}  {manager.function}{end}"
    inputs = counted(manager.read, "input")
    read = f"all {inputs} read" if manager.is_exhausted else f"{inputs} read so far"
    yield f"    items     {total(manager.counts)}: {count_words(manager.counts)}"
    if manager.read:
        yield f"    generator {read}"
    if not manager.has_begun:
        yield f"    cause     {without_host(manager)}"
    if manager.arguments:
        yield f"    arguments {' '.join(manager.arguments)}"
    if manager.tags:
        yield f"    tags      {', '.join(manager.tags)}"
    for name, value in sorted(manager.stats.items()):
        yield f"    {name}: {value}" if isinstance(value, str) else f"    {name}: {value:g}"
    if manager.problem is not None:
        yield from problem_lines(manager.problem)


def refused_lines(items: Iterable[ItemRecord], number: int) -> Iterator[str]:
    """Yield a line with the number of refused items and the first reason, if there are any."""
    refused = (item for item in items if item.state is ItemState.REFUSED)
    if number:
        reason = next((f"; the first, item {item.number}: {item.problem}" for item in refused), "")
        yield f"    refused   {counted(number, 'item')}{reason}"


def problem_lines(problem: CodeProblem) -> Iterator[str]:
    about = f" for job {problem.job}" if problem.job else ""
    times = counted(problem.failures, "time")
    yield f"  paused: {problem.phase} failed {times}{about}; `crawlctl flow resume` lets the manager continue:"
    yield from (f"    {line}" for line in problem.error.rstrip().splitlines()[-LAST_LINES:])


def progress_line(flow: str, manager: ManagerStatus) -> str:
    """Return a line for a log, and for a screen."""
    reason = f"  closed: {manager.close_reason}" if manager.closed_at is not None else ""
    problem = f"  {coloured('paused')}: {manager.problem.phase} failed" if manager.problem is not None else ""
    return f"{flow}  {count_words(manager.counts)}{reason}{problem}"


def item_lines(items: Sequence[ItemRecord], now: datetime) -> Iterator[str]:
    return table([ITEM_COLUMNS, *(_item_row(item, now) for item in items)], ITEM_COLUMNS.index("STATE"))


def _item_row(item: ItemRecord, now: datetime) -> tuple[str, ...]:
    took = "-" if item.started_at is None else duration((item.ended_at or now) - item.started_at)
    since = item.ended_at or item.started_at
    state = "delayed" if item.is_delayed else item.state.value
    why = NO_REACTION if item.awaits_reaction else item.problem
    why = why or (f"until {rfc3339(item.due)}" if item.due and item.state is ItemState.WAITING else "")
    return (
        str(item.number),
        item.crawler or "-",
        state,
        f"{item.attempt or '-'}",
        item.outcome or "-",
        "-" if since is None else rfc3339(since),
        took,
        "-" if item.run_id is None else str(item.run_id),
        _shortened(parameters(item)),
        _shortened(why),
    )


def item_attempt_lines(attempts: Sequence[ItemAttempt], now: datetime) -> Iterator[str]:
    return table([ATTEMPT_COLUMNS, *(_attempt_row(attempt, now) for attempt in attempts)])


def _attempt_row(attempt: ItemAttempt, now: datetime) -> tuple[str, ...]:
    changed = (f"{name}={value}" if value is not None else f"without {name}" for name, value in attempt.changed.items())
    return (
        str(attempt.number),
        str(attempt.attempt),
        attempt.crawler,
        "-" if attempt.run_id is None else str(attempt.run_id),
        attempt.outcome or "-",
        rfc3339(attempt.started_at),
        "-" if attempt.ended_at is None else rfc3339(attempt.ended_at),
        duration((attempt.ended_at or now) - attempt.started_at),
        _shortened(" ".join(changed)) or "-",
    )


def output_lines(lines: Sequence[OutputLine]) -> Iterator[str]:
    return (f"{rfc3339(line.at)}  {plain(line.text)}" for line in lines)


def parameters(item: ItemRecord) -> str:
    """Return the arguments as `name=value` words; of refused parameters, what their author wrote."""
    given = item.override.get("spider_args", item.override) if item.arguments is None else item.arguments
    return " ".join(f"{name}={value}" for name, value in given.items()) if isinstance(given, dict) else str(given)


def csv_text(items: Sequence[ItemRecord], *, header: bool) -> str:
    """Return the items as lines of CSV, with the arguments as JSON."""
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV_COLUMNS, lineterminator="\n")
    if header:
        writer.writeheader()
    for item in items:
        writer.writerow({name: _cell(item, name) for name in CSV_COLUMNS})
    return text.getvalue()


def _cell(item: ItemRecord, name: str) -> Any:
    from pydantic_core import to_json

    if name == "spider_args":
        return to_json(item.override.get(name, {}) if item.arguments is None else item.arguments).decode()
    if name == "tags":
        return " ".join(item.tags)
    value = getattr(item, name)
    return rfc3339(value) if isinstance(value, datetime) else value


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
