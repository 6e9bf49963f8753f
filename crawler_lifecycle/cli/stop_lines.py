"""The latest stop of a run as text. Pure: records in, lines out."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from crawler_lifecycle.cli.times import rfc3339
from crawler_lifecycle.contract.records import LogRecord, RunDetails
from crawler_lifecycle.contract.states import StopPhase

ASKED = ("stop", "force stop")
PHASES: dict[str, str] = {
    StopPhase.QUEUED_CANCELLED: "queue emptied", StopPhase.JOBS_ASKED: "jobs asked to end",
    StopPhase.FORCED: "jobs made to end", StopPhase.PROVED: "proved",
}  # fmt: skip


def stop_lines(details: RunDetails) -> Iterator[str]:
    """Who asked for the stop that is the latest, by which door, and how long each phase of it took."""
    asked: LogRecord | None = None
    before: datetime | None = None
    lines = _latest_stop(details.log)
    proved = any(line.event == StopPhase.PROVED for line in lines)
    for line in lines:
        if line.event in ASKED:
            who = ", ".join(part for part in (line.actor, line.door) if part)
            yield f"{line.event} asked {rfc3339(line.at)} by {who or 'nobody named'}: {line.message}"
            asked = asked or line
        elif line.event in PHASES:
            took = line.at - (before or (asked or line).at)
            yield f"{PHASES[line.event]} after {took.total_seconds():.1f} s: {line.message}"
            before = line.at
        elif line.event == StopPhase.UNCONFIRMED:
            yield f"not confirmed: {line.message}"
    if asked and not proved and not details.run.status.is_over:
        yield "not proved yet: something of the run may still be running"


def _latest_stop(log: Sequence[LogRecord]) -> Sequence[LogRecord]:
    """A run that was reopened may have been stopped before; that is another story."""
    starts = [number for number, line in enumerate(log) if line.event == "reopened"]
    return log[starts[-1] :] if starts else log
