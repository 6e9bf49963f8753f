"""Rules for the outcome of a schedule's occurrences: started, skipped (and why), queued, due or unknown.

Temporal keeps due times, started workflows and the number of skips, but no list of skipped occurrences. So skips are
conclusions from recorded pauses, from runs open at the time, and from Temporal's count of missed occurrences.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from crawler_lifecycle.contract.schedules import Occurrence, Outcome, Overlap, Pause, SkipReason

SETTLING = timedelta(seconds=10)  # after a due time, until Temporal has surely handled the occurrence


@dataclass(frozen=True, slots=True)
class Start:
    """A workflow started by a schedule."""

    workflow_id: str
    first_execution: str
    nominal: datetime  # the due time, without jitter
    started_at: datetime
    closed_at: datetime | None = None  # None: the workflow is open


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Known facts about a schedule beside the due times."""

    starts: Sequence[Start]
    pauses: Sequence[Pause]
    paused: bool
    overlap: Overlap | None
    jitter: timedelta
    window: timedelta  # greatest delay of a start
    queued: int  # occurrences waiting behind an open run, by Temporal's count
    missed: int  # occurrences dropped by Temporal, since their start would have come after the window
    now: datetime


def outcomes(due: Sequence[datetime], known: Circumstances) -> list[Occurrence]:
    """Return the outcome for every due time, oldest first."""
    started = _starts_by_due_time(due, known)
    occurrences = [
        _started_occurrence(at, started[at]) if at in started else _unstarted_occurrence(at, known) for at in due
    ]
    return _with_missed(occurrences, known)


def _starts_by_due_time(due: Sequence[datetime], known: Circumstances) -> dict[datetime, Start]:
    """Return starts by due time. Due times include the jitter: a start belongs to the first due time from its nominal
    time on.

    A manual trigger belongs to no due time: the next due time is further away than the jitter, or still ahead.
    """
    starts: dict[datetime, Start] = {}
    for start in sorted(known.starts, key=lambda start: start.started_at):
        at = next((time for time in due if time >= start.nominal), None)
        if at is not None and at - start.nominal <= known.jitter and start.started_at >= at:
            starts[at] = start
    return starts


def _started_occurrence(at: datetime, start: Start) -> Occurrence:
    late = start.started_at - at
    detail = f"{int(late.total_seconds())} s after it was due" if late > SETTLING else ""
    return Occurrence(
        at=at, outcome=Outcome.STARTED, detail=detail, started_at=start.started_at, workflow_id=start.workflow_id
    )


def _unstarted_occurrence(at: datetime, known: Circumstances) -> Occurrence:
    if pause := _pause_at(at, known.pauses):
        words = " by ".join(part for part in ("paused", pause.actor) if part)
        return _skipped(at, SkipReason.PAUSED, f"{words}: {pause.reason}" if pause.reason else words)
    if other := _open_at(at, known):
        return _skipped(at, SkipReason.OVERLAP, f"{other.workflow_id} was still open")
    if known.now - at < SETTLING:
        return Occurrence(at=at, outcome=Outcome.DUE)
    return Occurrence(at=at, outcome=Outcome.UNKNOWN)


def _skipped(at: datetime, reason: SkipReason, detail: str) -> Occurrence:
    return Occurrence(at=at, outcome=Outcome.SKIPPED, reason=reason, detail=detail)


def _pause_at(at: datetime, pauses: Iterable[Pause]) -> Pause | None:
    return next((pause for pause in pauses if pause.since <= at and (pause.until is None or at < pause.until)), None)


def _open_at(at: datetime, known: Circumstances) -> Start | None:
    """Return the start whose run was open at the time; None if overlaps are allowed.

    After an outage Temporal starts occurrences late, within the window, and such a run stands in the way from its due
    time on. A start after the window is a backfill, whose run stands in the way from its real start on.
    """
    if known.overlap is Overlap.ALLOW:
        return None
    for start in known.starts:
        is_within_window = start.started_at - start.nominal <= known.window
        since = start.nominal if is_within_window else start.started_at
        if since < at and (start.closed_at is None or at < start.closed_at):
            return start
    return None


def with_queue(occurrences: list[Occurrence], known: Circumstances) -> list[Occurrence]:
    """Mark the occurrence waiting behind an open run as queued: up to here the occurrence counts as skipped or due.

    With the rule `queue` the first such occurrence waits, and with `replace` the last.
    """
    if not known.queued or known.overlap is None or not known.overlap.waits:
        return occurrences
    since = max((start.started_at for start in known.starts if start.closed_at is None), default=known.now)
    behind = [
        number
        for number, occurrence in enumerate(occurrences)
        if occurrence.at >= since and (occurrence.reason is SkipReason.OVERLAP or occurrence.outcome is Outcome.DUE)
    ]
    if not behind:
        return occurrences
    number = behind[0] if known.overlap is Overlap.QUEUE else behind[-1]
    waiting = occurrences[number].model_copy(update={"outcome": Outcome.QUEUED, "reason": None})
    return [*occurrences[:number], waiting, *occurrences[number + 1 :]]


def _with_missed(occurrences: Sequence[Occurrence], known: Circumstances) -> list[Occurrence]:
    """Explain the unknown occurrences: as missed, if Temporal counts at least as many."""
    unknown = sum(occurrence.outcome is Outcome.UNKNOWN for occurrence in occurrences)
    return [
        _explained(occurrence, unknown, known) if occurrence.outcome is Outcome.UNKNOWN else occurrence
        for occurrence in occurrences
    ]


def _explained(occurrence: Occurrence, unknown: int, known: Circumstances) -> Occurrence:
    last = max((start.nominal for start in known.starts), default=occurrence.at)
    has_open_pause = any(pause.until is None for pause in known.pauses)
    # another tool's pause has no recorded beginning, but the pause began after the last start
    if known.paused and not has_open_pause and occurrence.at >= last:
        return _skipped(occurrence.at, SkipReason.PAUSED, "by other means than ours; since when is not on record")
    counted = f"Temporal counts {known.missed} that came too late"
    if unknown <= known.missed:
        return _skipped(occurrence.at, SkipReason.MISSED_WINDOW, counted)
    why = f"{counted}, and {unknown} have no other reason" if known.missed else "no reason is on record"
    return occurrence.model_copy(update={"detail": f"{why} (a pause by other means, or past Temporal's retention)"})
