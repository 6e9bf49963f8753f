"""Turns runs into tables of text."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from crawler_lifecycle.console.words import (
    coloured,
    counts,
    crawled,
    duration,
    fitted,
    is_odd,
    moment_text,
    shortened,
    table,
    waiting_words,
)
from crawler_lifecycle.limits.cli import permit_words, was_held
from crawler_lifecycle.model.reasons import BY_A_STOP
from crawler_lifecycle.model.records import RunSummary
from crawler_lifecycle.model.states import ListedStatus, RunStatus

RUN_COLUMNS = ("RUN", "CRAWLER", "STATUS", "OUTCOME", "REASON", "TASKS", "CRAWLED", "TRIGGER", "CREATED", "TOOK", "WHY")
EXPENDABLE = ("TRIGGER", "REASON", "CREATED", "CRAWLED", "TASKS", "TOOK", "OUTCOME")  # first the least valuable
STATUS = RUN_COLUMNS.index("STATUS")  # also in a narrow terminal
LONGEST_WHY = 80  # characters; the rest of a longer explanation is cut off


def list_lines(runs: Sequence[RunSummary], now: datetime, width: int | None = None) -> Iterator[str]:
    """Yield the lines of a table, no wider than `width`."""
    rows: Sequence[Sequence[str]] = [RUN_COLUMNS, *(_row(run, now, width) for run in runs)]
    odd_rows = {number for number, run in enumerate(runs, 1) if is_odd_end(run)}
    return table(rows if width is None else fitted(rows, width, EXPENDABLE), STATUS, odd_rows)


def coloured_status(run: RunSummary) -> str:
    return coloured(listed_status(run), is_odd=is_odd_end(run))


def is_odd_end(run: RunSummary) -> bool:
    """Return whether the run is completed with another outcome than the usual one."""
    return run.status is RunStatus.COMPLETED and is_odd(run.outcome)


def listed_status(run: RunSummary) -> ListedStatus:
    """Return the run's status with stopped runs apart from failures."""
    is_stopped = run.status is RunStatus.FAILED and run.reason in BY_A_STOP
    return ListedStatus.STOPPED if is_stopped else ListedStatus(run.status)


def _row(run: RunSummary, now: datetime, width: int | None) -> tuple[str, ...]:
    return (
        str(run.run_id),
        run.crawler,
        listed_status(run),
        run.outcome or "-",
        run.reason or "-",
        counts(run.tasks),
        crawled(run.stats) or "-",
        run.trigger,
        moment_text(run.created_at, now, width),
        duration(time_taken(run, now)),
        shortened(why(run) or _wait(run), LONGEST_WHY),
    )


def time_taken(run: RunSummary, now: datetime) -> timedelta:
    """Return the time from the run's creation or last reopening to its end or, before the end, until now."""
    return (run.finished_at or now) - run.begun_at


def why(run: RunSummary) -> str | None:
    """Return why the run ended, in a sentence. None while the run is under way, and if all of its tasks succeeded."""
    return " ".join(run.explanation.text.split()) if run.explanation else None


def _wait(run: RunSummary) -> str:
    """Return what keeps an open run from continuing; empty if no cause is recorded."""
    if run.status.is_over or run.waiting_cause is None:
        return ""
    if was_held(run):
        return f"queued: {run.waiting_message}" if permit_words(run) else ""
    words = waiting_words(run.waiting_cause)
    return f"{words}: {run.waiting_message}" if run.waiting_message else words
