"""Ends of attempts and runs: their meaning for the flow's member, and whether another attempt follows.

`refusal` judges attempts whose workflow has closed without a run, for graphs, for crawl managers and for the audit.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from crawler_lifecycle.base.pacing import Backoff
from crawler_lifecycle.flows.rules.rows import MemberRow
from crawler_lifecycle.flows.rules.words import (
    ARCHIVE,
    BY_ITSELF,
    FINAL_FAILURES,
    RETRY_PAUSE,
    SNOOZED,
    STOPPED,
    by_outcome,
    snoozed_seconds,
)
from crawler_lifecycle.model.flow_retrying import RetryPolicy, RetryRule
from crawler_lifecycle.model.flow_states import EndKind, MemberState, Ready
from crawler_lifecycle.model.outcome_words import FINISHED
from crawler_lifecycle.model.reasons import BY_A_STOP
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from crawler_lifecycle.model.supervision import WorkflowInfo

NO_WORKFLOW = "missing"  # how Temporal describes a workflow without a start
REFUSED = "refused"  # outcome word for an attempt whose request can never become a run
# outcomes by the workflow's end; any other end is unknown
OUTCOMES = {"failed": REFUSED, "canceled": "cancelled", "terminated": "terminated", "timed_out": "timed_out"}
UNKNOWN = "unknown"
PROBLEMS = {
    "failed": "its workflow was ended by a failure",
    "timed_out": "its workflow was ended by a time limit",
    "canceled": "its workflow was cancelled",
    "completed": "its workflow has completed, and the database has lost its run",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an attempt has no run, and never gets a run."""

    problem: str
    outcome: str = REFUSED


def is_missing(workflow: WorkflowInfo) -> bool:
    """Return whether the workflow has to be started: Temporal knows no such workflow."""
    return workflow.end == NO_WORKFLOW and not workflow.problem


def refusal(workflow: WorkflowInfo, failure: str | None) -> Refusal | None:
    """Return the refusal by a workflow that closed before it made a run; None for an open or missing workflow.

    A start under the same id would not repeat a closed workflow. `failure`: the message with which the workflow failed.
    """
    if workflow.is_open or workflow.problem or workflow.end in ("", NO_WORKFLOW):
        return None
    outcome = OUTCOMES.get(workflow.end, UNKNOWN)
    return Refusal(failure or PROBLEMS.get(workflow.end, f"its workflow was {workflow.end}"), outcome)


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """The end of a member's attempt: a step's return or exception, or a crawl's run."""

    number: int
    attempt: int
    kind: EndKind
    at: datetime
    outcome: str | None = None  # word for the end, for retry rules
    reason: str | None = None
    end: int = 0  # the run's end number; 0 for a step


@dataclass(frozen=True, slots=True)
class AttemptBegun:
    """A step's begin by a host."""

    number: int
    attempt: int
    generation: int
    at: datetime


def in_order(begins: Iterable[AttemptBegun], ends: Iterable[AttemptEnd]) -> list[AttemptBegun | AttemptEnd]:
    """Return begins and ends in the attempts' order."""
    news: list[AttemptBegun | AttemptEnd] = [*begins, *ends]
    return sorted(news, key=lambda seen: (seen.attempt, isinstance(seen, AttemptEnd)))


def after_end(row: MemberRow, end: AttemptEnd) -> MemberRow:
    """Return the row after the end. An end of another attempt changes nothing.

    If the member no longer executes, such as after a cancel, the end only settles the member.
    """
    if end.attempt != row.attempt or not row.in_flight:
        return row
    settled = row._replace(in_flight=False, end=end.end)
    if row.state is not MemberState.EXECUTING:
        return settled
    if end.kind is EndKind.COMPLETED and end.outcome is not None and is_failure(row.retry, end.outcome):
        return _after_failure(settled, replace(end, reason=by_outcome(end.outcome)))
    match end.kind:
        case EndKind.COMPLETED:
            after = _final(settled, MemberState.COMPLETED, end, end.reason)
        case EndKind.CANCELLED:
            after = _final(settled, MemberState.CANCELLED, end, end.reason or BY_ITSELF)
        case EndKind.SNOOZED:
            after = _after_snooze(settled, end)
        case EndKind.FAILED:
            after = _after_failure(settled, end)
    return after


def is_failure(policy: RetryPolicy, outcome: str) -> bool:
    """Return whether a retry rule names the outcome of a completed run: then the end is tried again like a failure."""
    return outcome != FINISHED and policy.rule_for(outcome) is not None


def rule_after(row: MemberRow, outcome: str | None) -> RetryRule | None:
    """Return the rule for the next attempt after an outcome: its pause, its arguments and its memory."""
    return row.retry.rule_for(outcome)


def rule_before(row: MemberRow) -> RetryRule | None:
    """Return the rule for the member's next attempt; None for the first attempt."""
    return rule_after(row, row.outcome) if row.tries else None


@dataclass(frozen=True, slots=True)
class RunSeen:
    """A sight: one reading of a run's row. The same sight may come again, and an older sight may come late."""

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
    """A sight of the ended tasks of a crawl. Needed only for crawls with dependents on single tasks."""

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


def as_end(seen: RunSeen) -> AttemptEnd:
    """Return the attempt's end for a run that is over."""
    if seen.status is RunStatus.COMPLETED:
        kind, reason = EndKind.COMPLETED, seen.reason
    elif seen.reason in BY_A_STOP:
        kind, reason = EndKind.CANCELLED, STOPPED
    else:
        kind, reason = EndKind.FAILED, seen.reason
    return AttemptEnd(seen.number, seen.attempt, kind, seen.at, seen.outcome, reason, seen.end)


def _after_snooze(row: MemberRow, end: AttemptEnd) -> MemberRow:
    """Return the row with a pause before the next attempt. The snoozed attempt does not count."""
    pause = timedelta(seconds=snoozed_seconds(end.reason))
    return row._replace(
        state=MemberState.RETRYABLE,
        cause=SNOOZED,
        reason=end.reason,
        outcome=None,
        since=end.at,
        due=end.at + pause,
        tries=row.tries - 1,
    )


def _after_failure(row: MemberRow, end: AttemptEnd) -> MemberRow:
    rule = rule_after(row, end.outcome)
    failures = dict(row.tries_by_outcome)
    if rule is not None and rule.max_attempts is not None:
        name = rule.outcomes[0]
        failures[name] = failures.get(name, 0) + 1
        may_retry = failures[name] < rule.max_attempts
    else:  # attempts under a rule with its own number do not count here
        may_retry = row.tries - sum(failures.values()) < row.retry.max_attempts
    row = row._replace(tries_by_outcome=tuple(failures.items()))
    if not may_retry or end.reason in FINAL_FAILURES:
        return _final(row, MemberState.DISCARDED, end, end.reason)
    return row._replace(
        state=MemberState.RETRYABLE,
        cause=RETRY_PAUSE,
        reason=end.reason,
        outcome=end.outcome,
        since=end.at,
        due=end.at + _pause(row, rule),
    )


def _pause(row: MemberRow, rule: RetryRule | None) -> timedelta:
    if rule is not None and rule.pause_seconds is not None:
        return timedelta(seconds=rule.pause_seconds)
    policy = row.retry
    return Backoff(timedelta(seconds=policy.pause_seconds), timedelta(seconds=policy.longest_pause_seconds)).pause(
        max(1, row.tries)
    )


def _final(row: MemberRow, state: MemberState, end: AttemptEnd, reason: str | None) -> MemberRow:
    return row._replace(
        state=state, cause=None, reason=reason, outcome=end.outcome, since=end.at, due=None, ended_at=end.at
    )


def _waits_for_archive(row: MemberRow, seen: RunSeen) -> bool:
    is_executing = row.state is MemberState.EXECUTING and seen.status is RunStatus.COMPLETED
    if seen.outcome is not None and is_failure(row.retry, seen.outcome):
        return False  # the member does not complete with this end
    return is_executing and row.ready is Ready.ARCHIVED and not seen.archived


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
