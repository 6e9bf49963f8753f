"""Rules for the outcomes of a schedule's occurrences: started, skipped (and why), queued, due or unknown.

Temporal knows due times, started workflows and the number of skips, but has no list of skipped occurrences. So the
rules conclude skips from recorded pauses, from the runs that were open at the time, and from Temporal's counts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from crawler_lifecycle.schedules.model import Occurrence, OccurrenceOutcome, Overlap, Pause, SkipReason

SETTLING = timedelta(seconds=10)  # time after which Temporal has surely handled an occurrence that was due


@dataclass(frozen=True, slots=True)
class ScheduledStart:
    """A workflow started by a schedule."""

    workflow_id: str
    first_execution: str
    nominal: datetime  # the due time without jitter (the random delay of an occurrence)
    started_at: datetime
    closed_at: datetime | None = None  # None: the workflow is open


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Known facts about a schedule beside the due times."""

    starts: Sequence[ScheduledStart]
    pauses: Sequence[Pause]  # recorded pauses; a pause by another tool is not recorded
    paused: bool  # whether the schedule is paused now
    overlap: Overlap | None  # None: another tool set a rule that we do not know
    jitter: timedelta  # longest random delay
    window: timedelta  # greatest delay of a start
    queued: int  # occurrences waiting for an open run to end, by Temporal's count
    missed: int  # occurrences dropped by Temporal, since their start would have come after the window
    now: datetime


def outcomes(due: Sequence[datetime], known: Circumstances) -> list[Occurrence]:
    """Return the outcome for every due time (with jitter), oldest first.

    An occurrence that waits for an open run is skipped or due here; `with_queue` then marks the occurrence as
    queued.
    """
    starts = _starts_by_due_time(due, known)
    occurrences = [
        _started_occurrence(at, starts[at]) if at in starts else _unstarted_occurrence(at, known) for at in due
    ]
    return _with_explained_unknowns(occurrences, known)


def starts_beside(
    listed: Sequence[Occurrence], starts: Iterable[ScheduledStart], *, is_full: bool
) -> list[ScheduledStart]:
    """Return the starts outside the listed occurrences, newest first. `listed` has the newest occurrence first.

    With a full list, a start that was due before the list may be an earlier occurrence that has started late.
    """
    known = {occurrence.workflow_id for occurrence in listed}
    since = listed[-1].at if listed and is_full else None
    others = (start for start in starts if start.workflow_id not in known and (since is None or start.nominal >= since))
    return sorted(others, key=lambda start: start.started_at, reverse=True)


def _starts_by_due_time(due: Sequence[datetime], known: Circumstances) -> dict[datetime, ScheduledStart]:
    """Return starts by due time. A start belongs to the first due time (with jitter) from its nominal time on.

    A start by a manual trigger is left out: its next due time is further away than the jitter, or came only after the
    start.
    """
    starts: dict[datetime, ScheduledStart] = {}
    for start in sorted(known.starts, key=lambda start: start.started_at):
        at = next((time for time in due if time >= start.nominal), None)
        if at is None or at - start.nominal > known.jitter or start.started_at < at:
            continue
        starts[at] = start
    return starts


def _started_occurrence(at: datetime, start: ScheduledStart) -> Occurrence:
    delay = start.started_at - at
    detail = f"{int(delay.total_seconds())} s after it was due" if delay > SETTLING else ""
    return Occurrence(
        at=at,
        outcome=OccurrenceOutcome.STARTED,
        detail=detail,
        started_at=start.started_at,
        workflow_id=start.workflow_id,
    )


def _unstarted_occurrence(at: datetime, known: Circumstances) -> Occurrence:
    """Return the occurrence of a due time without a start: skipped for a known reason, due or unknown."""
    if pause := _pause_at(at, known.pauses):
        words = " by ".join(part for part in ("paused", pause.actor) if part)
        return _skipped(at, SkipReason.PAUSED, f"{words}: {pause.reason}" if pause.reason else words)
    if earlier_start := _open_at(at, known):
        return _skipped(at, SkipReason.OVERLAP, f"{earlier_start.workflow_id} was still open")
    if known.now - at < SETTLING:
        return Occurrence(at=at, outcome=OccurrenceOutcome.DUE)
    return Occurrence(at=at, outcome=OccurrenceOutcome.UNKNOWN)


def _skipped(at: datetime, reason: SkipReason, detail: str) -> Occurrence:
    return Occurrence(at=at, outcome=OccurrenceOutcome.SKIPPED, reason=reason, detail=detail)


def _pause_at(at: datetime, pauses: Iterable[Pause]) -> Pause | None:
    return next((pause for pause in pauses if pause.since <= at and (pause.until is None or at < pause.until)), None)


def _open_at(at: datetime, known: Circumstances) -> ScheduledStart | None:
    """Return an earlier start whose run was open at the time; None without such a start, or if overlaps are allowed.

    After an outage Temporal starts occurrences late, within the window. Such a run counts as open from its due time on.
    A start after the window is a backfill, whose run counts as open from its real start on.
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
    """Mark the occurrence that waits for an open run as queued; `outcomes` has returned it as skipped or due.

    With the rule `queue` the first occurrence after the open run's start waits, and with `replace` the last.
    """
    can_wait = known.overlap is not None and known.overlap.waits
    if not known.queued or not can_wait:
        return occurrences
    open_since = max((start.started_at for start in known.starts if start.closed_at is None), default=known.now)
    candidates = [
        number
        for number, occurrence in enumerate(occurrences)
        if occurrence.at >= open_since
        and (occurrence.reason is SkipReason.OVERLAP or occurrence.outcome is OccurrenceOutcome.DUE)
    ]
    if not candidates:
        return occurrences
    waiting = candidates[0] if known.overlap is Overlap.QUEUE else candidates[-1]
    queued = occurrences[waiting].model_copy(update={"outcome": OccurrenceOutcome.QUEUED, "reason": None})
    return [*occurrences[:waiting], queued, *occurrences[waiting + 1 :]]


def _with_explained_unknowns(occurrences: Sequence[Occurrence], known: Circumstances) -> list[Occurrence]:
    """Return the occurrences, with an explanation for every unknown one."""
    unknown = sum(occurrence.outcome is OccurrenceOutcome.UNKNOWN for occurrence in occurrences)
    return [
        _explained(occurrence, unknown, known) if occurrence.outcome is OccurrenceOutcome.UNKNOWN else occurrence
        for occurrence in occurrences
    ]


def _explained(occurrence: Occurrence, unknown: int, known: Circumstances) -> Occurrence:
    """Return the occurrence as skipped by another tool's pause, as missed if Temporal's count allows, or as unknown.

    `unknown` is the number of unknown occurrences: Temporal's count explains all of them or none.
    """
    last_start = max((start.nominal for start in known.starts), default=occurrence.at)
    is_pause_on_record = any(pause.until is None for pause in known.pauses)
    # the beginning of another tool's pause is not recorded, but the pause began after the last start
    if known.paused and not is_pause_on_record and occurrence.at >= last_start:
        return _skipped(occurrence.at, SkipReason.PAUSED, "by other means than ours; the time is not recorded")
    counted = f"Temporal counts {known.missed} that came too late"
    if unknown <= known.missed:
        return _skipped(occurrence.at, SkipReason.MISSED_WINDOW, counted)
    doubt = f"{counted}, and {unknown} have no other reason" if known.missed else "no reason is recorded"
    return occurrence.model_copy(update={"detail": f"{doubt} (a pause by other means, or past Temporal's retention)"})
