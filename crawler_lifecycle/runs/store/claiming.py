"""Claims on tasks: time-limited rights to deploy, taken by conditional UPDATEs under a lock on the run's row.

The token identifies the dispatcher or worker that claims. Functions named `is_...` return conditions for rows of tasks.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, case, or_, select, update

from crawler_lifecycle.base.pacing import ON_THE_WAY
from crawler_lifecycle.database.schema import task_histories
from crawler_lifecycle.limits.rules.rooms import Hold
from crawler_lifecycle.limits.store.admission import has_no_pause
from crawler_lifecycle.model.deployment import Crawler, DeploymentRequest
from crawler_lifecycle.model.requests import AcceptedRequest
from crawler_lifecycle.model.states import TaskStatus
from crawler_lifecycle.runs.ports.runs import Claim

tasks = task_histories.c
NO_CLAIM = {"claim_token": None, "claim_expires_at": None}
NO_CAUSE = {"cause": None, "cause_since": None}


def claim_is_free(now: datetime, token: str) -> ColumnElement[bool]:
    """Return the condition for tasks with a claim that has expired or has the caller's own token.

    The caller may take back its own claim, because it claims only while none of its requests is under way.
    """
    free = or_(tasks.claim_expires_at.is_(None), tasks.claim_expires_at <= now, tasks.claim_token == token)
    return and_(tasks.status == TaskStatus.DEPLOYING, free)


def is_settled(now: datetime) -> ColumnElement[bool]:
    """Return the condition for tasks with a claim expired long enough ago to leave no request on its way."""
    settled = or_(tasks.claim_expires_at.is_(None), tasks.claim_expires_at <= now - ON_THE_WAY)
    return and_(tasks.status == TaskStatus.DEPLOYING, settled)


def is_claimable(now: datetime, token: str) -> ColumnElement[bool]:
    """Return the condition for tasks that the caller may claim."""
    return or_(is_queued(now), claim_is_free(now, token))


def is_queued(now: datetime) -> ColumnElement[bool]:
    """Return the condition for QUEUED tasks without a pause before a retry."""
    return and_(tasks.status == TaskStatus.QUEUED, has_no_pause(now))


def take_claims(
    connection: Connection,
    run: Row[Any],
    numbers: Sequence[int],
    condition: ColumnElement[bool],
    token: str,
    expires_at: datetime,
    hold: Hold | None = None,
) -> list[Claim]:
    """Claim the numbered tasks where the condition holds. Return all the token's claims on these tasks."""
    if not numbers:
        return []
    numbered = and_(tasks.history_id == run.id, tasks.task.in_(numbers))
    values = {"status": TaskStatus.DEPLOYING, "claim_token": token, "claim_expires_at": expires_at, **NO_CAUSE}
    claiming = update(task_histories).where(numbered, condition).values(version=tasks.version + 1, **values)
    if not connection.execute(claiming).rowcount:
        return []
    claimed = select(tasks.task, tasks.attempt).where(numbered, tasks.claim_token == token).order_by(tasks.task)
    return [
        Claim(run.id, task, token, _request_for(run, task, attempt, expires_at), hold)
        for task, attempt in connection.execute(claimed)
    ]


def _request_for(run: Row[Any], task: int, attempt: int, expires_at: datetime) -> DeploymentRequest:
    request = AcceptedRequest.model_validate_json(run.request)
    entry = Crawler.model_validate_json(run.entry)
    return DeploymentRequest(
        installation=run.installation,
        run_id=run.id,
        run_uid=run.run_uid,
        task=task,
        tasks=run.tasks,
        attempt=attempt,
        cluster=run.cluster,
        crawler=entry,
        arguments=request.arguments,
        settings=request.settings,
        labels=request.labels,
        deadline_seconds=request.max_duration_seconds or entry.max_duration_seconds,
        grace_seconds=request.grace_seconds,
        not_after=expires_at,
    )


def cause_assignments(cause: str, now: datetime) -> tuple[tuple[Any, Any], ...]:
    """Return assignments for the cause and its time, which stays if the cause stays.

    MySQL assigns in order, so the time, which depends on the old cause, comes first.
    """
    since = case((tasks.cause == cause, tasks.cause_since), else_=now)
    return (tasks.cause_since, since), (tasks.cause, cause)
