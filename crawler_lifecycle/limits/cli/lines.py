"""Turns limits into a table of text, and the wait for a permit into words."""

from collections.abc import Iterator, Sequence

from crawler_lifecycle.console.words import rfc3339, table
from crawler_lifecycle.model.limits import INSTALLATION, LimitRecord, in_words
from crawler_lifecycle.model.records import Place, RunSummary
from crawler_lifecycle.model.states import Intent, RunStatus

COLUMNS = ("SCOPE", "RUNS", "TASKS", "PLACES KEPT", "WEIGHT", "QUEUED RUNS", "PAUSED")


def limit_lines(records: Sequence[LimitRecord]) -> Iterator[str]:
    return table([COLUMNS, *(_row(record) for record in records)])


def _row(record: LimitRecord) -> tuple[str, ...]:
    return (
        INSTALLATION if record.scope == INSTALLATION else in_words(record.scope),
        f"{record.runs_begun}/{_cap(record.runs)}",
        f"{record.tasks_in_cluster}/{_cap(record.tasks)}",
        str(record.places_kept),
        _cap(record.weight),
        str(record.runs_held),
        "-" if record.paused_at is None else pause_words(record),
    )


def _cap(number: int | None) -> str:
    return "-" if number is None else str(number)


def pause_words(record: LimitRecord) -> str:
    reason = " ".join((record.paused_reason or "").split())
    return f"since {rfc3339(record.paused_at)} by {record.paused_by or 'an unnamed caller'}: {reason}"


def was_held(run: RunSummary) -> bool:
    """Return whether a limit or a pause holds the run without a permit, or held the run until a stop."""
    return run.held_by is not None and run.admitted_at is None


def permit_words(run: RunSummary, place: Place | None = None) -> str | None:
    """Return what holds a queued run, and its place; None unless the run waits for its permit.

    A reopened run whose main job succeeded before is PROCESSING, and waits all the same.
    """
    is_wanted = run.status in (RunStatus.INITIALIZING, RunStatus.PROCESSING) and run.intent is Intent.RUN
    if run.waiting_cause is None or not was_held(run) or not is_wanted:
        return None
    number = f", place {place.number} of {place.length}" if place else ""
    since = rfc3339(run.waiting_since)
    return f"{run.waiting_message}{number}, since {since}"


def held_children(run: RunSummary) -> str | None:
    """Return which scope holds the child tasks of a begun run; None if no scope does.

    A run without a permit says itself what holds the run with its tasks.
    """
    if run.held_by is None or run.admitted_at is None or run.status is not RunStatus.PROCESSING:
        return None
    return f"held by a limit or a pause of {in_words(run.held_by)}"
