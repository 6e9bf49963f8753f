"""Who may have which job made? A claim is a conditional UPDATE, under a lock of the run's row."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, case, func, not_, or_, select, update

from crawler_lifecycle.adapters.sql.fence import fence, held_intent, hold
from crawler_lifecycle.adapters.sql.reading import run_row
from crawler_lifecycle.adapters.sql.schema import histories, installation, task_histories
from crawler_lifecycle.adapters.sql.transactions import OnDatabase, reading, transaction
from crawler_lifecycle.contract.deployment import Crawler, Deployment, DeploymentRequest
from crawler_lifecycle.contract.requests import AcceptedRequest
from crawler_lifecycle.contract.states import IN_CLUSTER, Intent, RunStatus, TaskStatus
from crawler_lifecycle.contract.steps import RunRef
from crawler_lifecycle.domain.naming import MAIN_TASK
from crawler_lifecycle.domain.pacing import LONGEST_SILENCE
from crawler_lifecycle.ports import Backlog, Claim

of = task_histories.c
UNCLAIMED = {"claim_token": None, "claim_expires_at": None}
OURS = select(installation.c.uid).scalar_subquery()
NO_CAUSE = {"cause": None, "cause_since": None}
NO_MESSAGE = {"message": None}  # what was in the way is not any more


class TaskClaims(OnDatabase):
    @transaction
    def claim_main(self, tx: Connection, run: RunRef, token: str, expires_in: timedelta) -> Claim | None:
        fence(tx, run)
        row = run_row(tx, run.run_id)
        if row.intent is not Intent.RUN or row.status.is_over:
            return None
        now = self._db.clock()
        claims = _claim(tx, row, [MAIN_TASK], _claimable(now, token), token, now + expires_in)
        return claims[0] if claims else None

    @reading
    def backlogs(self, connection: Connection, token: str) -> list[Backlog]:
        now = self._db.clock()
        waiting = func.sum(case((_waiting_child(now, token), 1), else_=0))
        in_cluster = func.sum(case((_in_cluster(now, token), 1), else_=0))
        query = (
            select(histories.c.id, waiting, in_cluster, histories.c.max_parallel)
            .join_from(histories, task_histories, of.history_id == histories.c.id)
            .where(histories.c.status == RunStatus.PROCESSING, histories.c.intent == Intent.RUN)
            .where(histories.c.installation == OURS, _is_watched(now))
            .where(of.status.in_((TaskStatus.QUEUED, *IN_CLUSTER)))
            .group_by(histories.c.id, histories.c.max_parallel)
            .having(waiting > 0)
            .order_by(histories.c.id)
        )
        return [Backlog(run, int(due), int(there), most) for run, due, there, most in connection.execute(query)]

    @reading
    def in_cluster(self, connection: Connection, token: str) -> int:
        query = select(func.count()).select_from(task_histories).where(_in_cluster(self._db.clock(), token))
        return connection.scalar(query) or 0

    @transaction
    def claim_children(self, tx: Connection, run_id: int, token: str, expires_in: timedelta, most: int) -> list[Claim]:
        hold(tx, run_id)
        row = run_row(tx, run_id)
        if row.status is not RunStatus.PROCESSING or row.intent is not Intent.RUN:
            return []
        now = self._db.clock()
        if not tx.scalar(select(_is_watched(now)).where(histories.c.id == run_id)):
            return []
        numbers = _next_children(tx, row, most, now, token)
        return _claim(tx, row, numbers, _claimable(now, token), token, now + expires_in)

    @transaction
    def deployed(self, tx: Connection, claim: Claim, deployment: Deployment) -> Intent | None:
        intent = held_intent(tx, claim.run_id)
        job = {"job_name": deployment.job_name, "job_uid": deployment.job_uid, "deployed_at": self._db.clock()}
        pending = update(task_histories).where(_held_by(claim))
        fresh = {**UNCLAIMED, **NO_CAUSE, **NO_MESSAGE}
        pending = pending.values(status=TaskStatus.PENDING, version=of.version + 1, **job, **fresh)
        held = tx.execute(pending).rowcount
        return intent if held or _is_wanted(tx, claim, deployment) else None

    @transaction
    def failed(self, tx: Connection, claim: Claim, cause: str, message: str, *, refused: bool) -> None:
        hold(tx, claim.run_id)
        now = self._db.clock()
        held = update(task_histories).where(_held_by(claim))
        if refused:
            end = {"status": TaskStatus.FAILED, "reason": cause, "message": message, "finished_at": now}
            held = held.values(version=of.version + 1, **end, **UNCLAIMED, **NO_CAUSE)
        else:
            held = held.ordered_values(*_caused(cause, now), (of.message, message), (of.version, of.version + 1))
        tx.execute(held)

    def explain(self, run_id: int, cause: str) -> None:
        # the dispatcher repeats itself at every pass: without this check each pass would change the run's row
        if self._has_another_cause(run_id, cause):
            self._write_cause(run_id, cause)

    @reading
    def _has_another_cause(self, connection: Connection, run_id: int, cause: str) -> bool:
        return connection.scalar(select(of.task).where(_queued_without(cause, run_id)).limit(1)) is not None

    @transaction
    def _write_cause(self, tx: Connection, run_id: int, cause: str) -> None:
        hold(tx, run_id)
        changes = (*_caused(cause, self._db.clock()), (of.version, of.version + 1))
        tx.execute(update(task_histories).where(_queued_without(cause, run_id)).ordered_values(*changes))


def _queued_without(cause: str, run_id: int) -> ColumnElement[bool]:
    """Condition for the QUEUED tasks of the run that have another cause, or none."""
    another = or_(of.cause.is_(None), of.cause != cause)
    return and_(of.history_id == run_id, of.status == TaskStatus.QUEUED, another)


def _is_watched(now: datetime) -> ColumnElement[bool]:
    """What nobody looks at gets no more jobs: its row may be one of a backup, of a run that has ended since."""
    run, since = histories.c, now - LONGEST_SILENCE
    just_begun = and_(run.next_look_at.is_(None), or_(run.supervisor_began_at > since, run.started_at > since))
    return or_(run.next_look_at > since, just_begun)


def _claim_is_free(now: datetime, token: str) -> ColumnElement[bool]:
    """A claim that ran out, or the asker's own: whoever asks has no request under way."""
    free = or_(of.claim_expires_at.is_(None), of.claim_expires_at <= now, of.claim_token == token)
    return and_(of.status == TaskStatus.DEPLOYING, free)


def _claimable(now: datetime, token: str) -> ColumnElement[bool]:
    return or_(of.status == TaskStatus.QUEUED, _claim_is_free(now, token))


def _waiting_child(now: datetime, token: str) -> ColumnElement[bool]:
    return and_(of.task != MAIN_TASK, _claimable(now, token))


def _in_cluster(now: datetime, token: str) -> ColumnElement[bool]:
    """A child that waits to be claimed again is not counted: it must not take the place that it needs itself."""
    waiting = and_(of.task != MAIN_TASK, _claim_is_free(now, token))
    return and_(of.status.in_(IN_CLUSTER), not_(waiting))


def _held_by(claim: Claim) -> ColumnElement[bool]:
    task = and_(of.history_id == claim.run_id, of.task == claim.task, of.attempt == claim.request.attempt)
    return and_(task, of.status == TaskStatus.DEPLOYING, of.claim_token == claim.token)


def _is_wanted(connection: Connection, claim: Claim, deployment: Deployment) -> bool:
    """Of a claim that was lost: its job is on record, or will be when the task is deployed again or looked at."""
    query = select(of.attempt, of.status, of.job_uid).where(of.history_id == claim.run_id, of.task == claim.task)
    row = connection.execute(query).one_or_none()
    if row is None or row.attempt != claim.request.attempt:
        return False
    return not row.status.is_over or row.job_uid == deployment.job_uid


def _caused(cause: str, now: datetime) -> tuple[tuple[Any, Any], ...]:
    """MySQL assigns one after the other: `cause_since` looks at the old cause."""
    return (of.cause_since, case((of.cause == cause, of.cause_since), else_=now)), (of.cause, cause)


def _next_children(connection: Connection, run: Row[Any], most: int, now: datetime, token: str) -> Sequence[int]:
    """Claims that ran out first, as they may have a job already; never more than the run may have in the cluster."""
    if run.max_parallel is not None:
        there = select(func.count()).select_from(task_histories).where(of.history_id == run.id, _in_cluster(now, token))
        most = min(most, run.max_parallel - (connection.scalar(there) or 0))
    children = select(of.task).where(of.history_id == run.id, _waiting_child(now, token))
    return connection.scalars(children.order_by(of.status, of.task).limit(max(most, 0))).all()


def _claim(
    connection: Connection,
    run: Row[Any],
    numbers: Sequence[int],
    allowed: ColumnElement[bool],
    token: str,
    until: datetime,
) -> list[Claim]:
    if not numbers:
        return []
    these = and_(of.history_id == run.id, of.task.in_(numbers))
    values = {"status": TaskStatus.DEPLOYING, "claim_token": token, "claim_expires_at": until, **NO_CAUSE}
    taken = update(task_histories).where(these, allowed).values(version=of.version + 1, **values)
    if not connection.execute(taken).rowcount:
        return []
    ours = select(of.task, of.attempt).where(these, of.claim_token == token).order_by(of.task)
    return [_as_claim(run, task, attempt, token, until) for task, attempt in connection.execute(ours)]


def _as_claim(run: Row[Any], task: int, attempt: int, token: str, until: datetime) -> Claim:
    request = AcceptedRequest.model_validate_json(run.request)
    entry = Crawler.model_validate_json(run.entry)
    deployment = DeploymentRequest(
        installation=run.installation,
        run_id=run.id,
        run_uid=run.run_uid,
        task=task,
        tasks=run.tasks,
        attempt=attempt,
        cluster=run.cluster,
        crawler=entry,
        arguments=request.arguments,
        deadline_seconds=request.max_duration_seconds or entry.max_duration_seconds,
        grace_seconds=request.grace_seconds,
        not_after=until,
    )
    return Claim(run_id=run.id, task=task, token=token, request=deployment)
