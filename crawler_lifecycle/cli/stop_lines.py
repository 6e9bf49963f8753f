"""Turns the latest stop of a run into lines of text."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from crawler_lifecycle.cli.words import rfc3339
from crawler_lifecycle.contract.records import LogRecord, RunDetails
from crawler_lifecycle.contract.states import StopPhase

ASKED = ("stop", "force stop")
PHASES: dict[str, str] = {
    StopPhase.QUEUED_CANCELLED: "queue emptied", StopPhase.JOBS_ASKED: "jobs asked to end",
    StopPhase.FORCED: "jobs made to end", StopPhase.PROVED: "proved",
}  # fmt: skip


def stop_lines(details: RunDetails) -> Iterator[str]:
    """Yield a line for every request of the latest stop, with actor and door, and a line for every phase, with its
    duration.
    """
    first: LogRecord | None = None
    before: datetime | None = None
    lines = _latest_stop(details.log)
    proved = any(line.event == StopPhase.PROVED for line in lines)
    for line in lines:
        if line.event in ASKED:
            who = ", ".join(part for part in (line.actor, line.door) if part)
            yield f"{line.event} asked {rfc3339(line.at)} by {who or 'an unnamed caller'}: {line.message}"
            first = first or line
        elif line.event in PHASES:
            took = line.at - (before or (first or line).at)
            yield f"{PHASES[line.event]} after {took.total_seconds():.1f} s: {line.message}"
            before = line.at
        elif line.event == StopPhase.UNCONFIRMED:
            yield f"not confirmed: {line.message}"
    if first and not proved and not details.run.status.is_over:
        yield "not proved yet: a job of the run may still be running"


def _latest_stop(log: Sequence[LogRecord]) -> Sequence[LogRecord]:
    """Return the timeline's lines after the last reopening: earlier stops belong to an earlier end."""
    starts = [number for number, line in enumerate(log) if line.event == "reopened"]
    return log[starts[-1] :] if starts else log
