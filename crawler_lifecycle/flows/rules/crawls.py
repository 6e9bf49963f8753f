"""Crawls: the meaning that a run has for its member."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from crawler_lifecycle.flows.rules.ends import AttemptEnd, after_end, names
from crawler_lifecycle.flows.rules.rows import MemberRow
from crawler_lifecycle.flows.rules.words import ARCHIVE, STOPPED
from crawler_lifecycle.model.flow_states import EndKind, MemberState, Ready
from crawler_lifecycle.model.reasons import BY_A_STOP
from crawler_lifecycle.model.states import RunStatus, TaskStatus


@dataclass(frozen=True, slots=True)
class RunSeen:
    """A run as its rows show it. The same sight may come again, and an older sight may come late."""

    number: int  # of the member
    attempt: int
    status: RunStatus
    end: int  # the run's last end if the run is over, and the next end if not
    at: datetime  # time when the run ended, or was reopened
    reason: str | None = None
    outcome: str | None = None
    archived: bool = False  # whether the end's archive is ready
    tasks: int = 0


@dataclass(frozen=True, slots=True)
class TasksSeen:
    """Ends of a crawl's tasks. Needed only for crawls with dependents on single tasks."""

    number: int
    generation: int  # the attempt's generation
    ends: Mapping[int, TaskStatus] = field(default_factory=dict)


def after_sight(row: MemberRow, seen: RunSeen) -> MemberRow:
    """Return the member's row after a sight."""
    if seen.attempt != row.attempt or seen.end <= row.end:
        return row
    if row.end and not row.in_flight:  # the sight may be the first after the run was reopened
        row = _reopened(row, seen)
    if not seen.status.is_over:
        return row
    if row.in_flight and _waits_for_archive(row, seen):
        return row if row.cause == ARCHIVE else row._replace(cause=ARCHIVE, outcome=seen.outcome)
    return after_end(row, as_end(seen))


def _waits_for_archive(row: MemberRow, seen: RunSeen) -> bool:
    is_executing = row.state is MemberState.EXECUTING and seen.status is RunStatus.COMPLETED
    if seen.outcome is not None and names(row.retry, seen.outcome):
        return False  # the member does not complete with this end
    return is_executing and row.ready is Ready.ARCHIVED and not seen.archived


def as_end(seen: RunSeen) -> AttemptEnd:
    """Return the attempt's end for a run that is over."""
    if seen.status is RunStatus.COMPLETED:
        kind, reason = EndKind.COMPLETED, seen.reason
    elif seen.reason in BY_A_STOP:
        kind, reason = EndKind.CANCELLED, STOPPED
    else:
        kind, reason = EndKind.FAILED, seen.reason
    return AttemptEnd(seen.number, seen.attempt, kind, seen.at, seen.outcome, reason, seen.end)


def _reopened(row: MemberRow, seen: RunSeen) -> MemberRow:
    """Return the row after the run was reopened: the same attempt executes again."""
    if row.attempt_generation != row.generation:
        return row  # a retry has replaced the attempt
    return row._replace(
        state=MemberState.EXECUTING,
        in_flight=True,
        terminate=True,
        cause=None,
        reason=None,
        outcome=None,
        since=seen.at,
        due=None,
        ended_at=None,
    )
