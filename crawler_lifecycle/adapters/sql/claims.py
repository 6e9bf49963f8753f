"""Claims on tasks: rights to deploy, taken by conditional UPDATEs under a lock on the run's row."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, case, func, not_, or_, select, update

from crawler_lifecycle.adapters.sql.reading import run_row
from crawler_lifecycle.adapters.sql.schema import OWN_INSTALLATION, histories, task_histories
from crawler_lifecycle.adapters.sql.transactions import OnDatabase, fence, held_intent, hold, reading, transaction
from crawler_lifecycle.contract.deployment import Crawler, Deployment, DeploymentRequest
from crawler_lifecycle.contract.requests import AcceptedRequest
from crawler_lifecycle.contract.states import IN_CLUSTER, Intent, RunStatus, TaskStatus
from crawler_lifecycle.contract.steps.run import RunRef
from crawler_lifecycle.domain.naming import MAIN_TASK
from crawler_lifecycle.domain.pacing import LONGEST_SILENCE
from crawler_lifecycle.ports import Backlog, Claim

tasks = task_histories.c
UNCLAIMED = {"claim_token": None, "claim_expires_at": None}
NO_CAUSE = {"cause": None, "cause_since": None}
NO_MESSAGE = {"message": None}  # drops the explanation why the task was not deployed


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
            .join_from(histories, task_histories, tasks.history_id == histories.c.id)
            .where(histories.c.status == RunStatus.PROCESSING, histories.c.intent == Intent.RUN)
            .where(histories.c.installation == OWN_INSTALLATION, _is_watched(now))
            .where(tasks.status.in_((TaskStatus.QUEUED, *IN_CLUSTER)))
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
        pending = pending.values(status=TaskStatus.PENDING, version=tasks.version + 1, **job, **fresh)
        held = tx.execute(pending).rowcount
        return intent if held or _is_wanted(tx, claim, deployment) else None

    @transaction
    def failed(self, tx: Connection, claim: Claim, cause: str, message: str, *, refused: bool) -> None:
        hold(tx, claim.run_id)
        now = self._db.clock()
        held = update(task_histories).where(_held_by(claim))
        if refused:
            end = {"status": TaskStatus.FAILED, "reason": cause, "message": message, "finished_at": now}
            held = held.values(version=tasks.version + 1, **end, **UNCLAIMED, **NO_CAUSE)
        else:
            held = held.ordered_values(
                *_caused(cause, now), (tasks.message, message), (tasks.version, tasks.version + 1)
            )
        tx.execute(held)

    def explain(self, run_id: int, cause: str) -> None:
        # the dispatcher repeats its writes at every pass: without the check every pass would change the run's row
        if self._has_another_cause(run_id, cause):
            self._write_cause(run_id, cause)

    @reading
    def _has_another_cause(self, connection: Connection, run_id: int, cause: str) -> bool:
        return connection.scalar(select(tasks.task).where(_queued_without(cause, run_id)).limit(1)) is not None

    @transaction
    def _write_cause(self, tx: Connection, run_id: int, cause: str) -> None:
        hold(tx, run_id)
        changes = (*_caused(cause, self._db.clock()), (tasks.version, tasks.version + 1))
        tx.execute(update(task_histories).where(_queued_without(cause, run_id)).ordered_values(*changes))


def _queued_without(cause: str, run_id: int) -> ColumnElement[bool]:
    """Return the condition for the run's QUEUED tasks with another cause or no cause."""
    another = or_(tasks.cause.is_(None), tasks.cause != cause)
    return and_(tasks.history_id == run_id, tasks.status == TaskStatus.QUEUED, another)


def _is_watched(now: datetime) -> ColumnElement[bool]:
    """Return the condition for runs with a supervisor that looks in time.

    A run without a supervisor gets no more jobs: its row may come from a backup, and the run may be over since.
    """
    run, since = histories.c, now - LONGEST_SILENCE
    just_begun = and_(run.next_look_at.is_(None), or_(run.supervisor_began_at > since, run.started_at > since))
    return or_(run.next_look_at > since, just_begun)


def _claim_is_free(now: datetime, token: str) -> ColumnElement[bool]:
    """Return the condition for tasks with a claim that the caller may take.

    The claim ran out, or has the caller's own token: the caller has no request under way when it claims.
    """
    free = or_(tasks.claim_expires_at.is_(None), tasks.claim_expires_at <= now, tasks.claim_token == token)
    return and_(tasks.status == TaskStatus.DEPLOYING, free)


def _claimable(now: datetime, token: str) -> ColumnElement[bool]:
    return or_(tasks.status == TaskStatus.QUEUED, _claim_is_free(now, token))


def _waiting_child(now: datetime, token: str) -> ColumnElement[bool]:
    return and_(tasks.task != MAIN_TASK, _claimable(now, token))


def _in_cluster(now: datetime, token: str) -> ColumnElement[bool]:
    """Return the condition for tasks that have, or may have, a job, and so take room in the cluster.

    A child task with a free claim does not count: the task would take the room for its own deployment.
    """
    claimable_child = and_(tasks.task != MAIN_TASK, _claim_is_free(now, token))
    return and_(tasks.status.in_(IN_CLUSTER), not_(claimable_child))


def _held_by(claim: Claim) -> ColumnElement[bool]:
    task = and_(tasks.history_id == claim.run_id, tasks.task == claim.task, tasks.attempt == claim.request.attempt)
    return and_(task, tasks.status == TaskStatus.DEPLOYING, tasks.claim_token == claim.token)


def _is_wanted(connection: Connection, claim: Claim, deployment: Deployment) -> bool:
    """Return whether a lost claim's job still has a use, and need not be stopped.

    The job is on record already, or its attempt is open: then the next deployment with the same key, or the next look,
    puts the job on record.
    """
    query = select(tasks.attempt, tasks.status, tasks.job_uid).where(
        tasks.history_id == claim.run_id, tasks.task == claim.task
    )
    row = connection.execute(query).one_or_none()
    if row is None or row.attempt != claim.request.attempt:
        return False
    return not row.status.is_over or row.job_uid == deployment.job_uid


def _caused(cause: str, now: datetime) -> tuple[tuple[Any, Any], ...]:
    """Return assignments for the cause and its time. The time comes first: it depends on the old cause.

    MySQL assigns in order.
    """
    return (tasks.cause_since, case((tasks.cause == cause, tasks.cause_since), else_=now)), (tasks.cause, cause)


def _next_children(connection: Connection, run: Row[Any], most: int, now: datetime, token: str) -> Sequence[int]:
    """Return the child tasks to claim, not more than the run may have in the cluster.

    Expired claims come first, because their tasks may have a job already.
    """
    if run.max_parallel is not None:
        there = (
            select(func.count()).select_from(task_histories).where(tasks.history_id == run.id, _in_cluster(now, token))
        )
        most = min(most, run.max_parallel - (connection.scalar(there) or 0))
    children = select(tasks.task).where(tasks.history_id == run.id, _waiting_child(now, token))
    # statuses are stored as text, so DEPLOYING comes before QUEUED
    return connection.scalars(children.order_by(tasks.status, tasks.task).limit(max(most, 0))).all()


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
    chosen = and_(tasks.history_id == run.id, tasks.task.in_(numbers))
    values = {"status": TaskStatus.DEPLOYING, "claim_token": token, "claim_expires_at": until, **NO_CAUSE}
    taken = update(task_histories).where(chosen, allowed).values(version=tasks.version + 1, **values)
    if not connection.execute(taken).rowcount:
        return []
    ours = select(tasks.task, tasks.attempt).where(chosen, tasks.claim_token == token).order_by(tasks.task)
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
