"""Attempts' ends: the meaning for the member, and whether another attempt follows."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from crawler_lifecycle.base.pacing import Backoff
from crawler_lifecycle.flows.rules.rows import MemberRow
from crawler_lifecycle.flows.rules.words import (
    BY_ITSELF,
    FINAL_FAILURES,
    RETRY_PAUSE,
    SNOOZED,
    by_outcome,
    snoozed_seconds,
)
from crawler_lifecycle.model.flow_retrying import RetryPolicy, RetryRule
from crawler_lifecycle.model.flow_states import EndKind, MemberState
from crawler_lifecycle.model.outcome_words import FINISHED


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


def after_end(row: MemberRow, end: AttemptEnd) -> MemberRow:
    """Return the row after the end. An end for another attempt changes nothing; a late end only settles the member."""
    if end.attempt != row.attempt or not row.in_flight:
        return row
    settled = row._replace(in_flight=False, end=end.end)
    if row.state is not MemberState.EXECUTING:
        return settled
    if end.kind is EndKind.COMPLETED and end.outcome is not None and names(row.retry, end.outcome):
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


def names(policy: RetryPolicy, outcome: str) -> bool:
    """Return whether a rule names the own word of a completed run, which the rule makes a failure."""
    return outcome != FINISHED and policy.rule_for(outcome) is not None


def rule_after(row: MemberRow, outcome: str | None) -> RetryRule | None:
    """Return the rule for the next attempt after an outcome: its pause, its arguments and its memory."""
    return row.retry.rule_for(outcome)


def rule_before(row: MemberRow) -> RetryRule | None:
    """Return the rule for the member's next attempt; None for the first attempt."""
    return rule_after(row, row.outcome) if row.tries else None


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
