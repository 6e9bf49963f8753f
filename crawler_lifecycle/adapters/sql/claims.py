"""Claims on tasks: time-limited rights to deploy, taken by conditional UPDATEs under a lock on the run's row.

The token identifies the dispatcher or worker that claims. Functions named `_is_...`, `_takes_room` and `_claim_holds`
return conditions for rows of tasks or runs.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, case, func, not_, or_, select, update

from crawler_lifecycle.adapters.sql.reading import run_row
from crawler_lifecycle.adapters.sql.schema import OWN_INSTALLATION, histories, task_histories
from crawler_lifecycle.adapters.sql.transactions import (
    OnDatabase,
    fence,
    lock_and_get_intent,
    lock_run,
    reading,
    transaction,
)
from crawler_lifecycle.contract.deployment import Crawler, Deployment, DeploymentRequest
from crawler_lifecycle.contract.requests import AcceptedRequest
from crawler_lifecycle.contract.states import IN_CLUSTER, Intent, RunStatus, TaskStatus
from crawler_lifecycle.contract.steps.run import RunRef
from crawler_lifecycle.domain.naming import MAIN_TASK
from crawler_lifecycle.domain.pacing import LONGEST_SILENCE
from crawler_lifecycle.ports import Backlog, Claim

tasks = task_histories.c
NO_CLAIM = {"claim_token": None, "claim_expires_at": None}
NO_CAUSE = {"cause": None, "cause_since": None}
NO_MESSAGE = {"message": None}  # drops the explanation why the task was not deployed


class TaskClaims(OnDatabase):
    """The methods in `ports.Claims` for tasks."""

    @transaction
    def claim_main(self, tx: Connection, run: RunRef, token: str, expires_in: timedelta) -> Claim | None:
        """Claim task 0. Return None if the task needs no deployment or is claimed, or if the run stops or is over."""
        fence(tx, run)
        row = run_row(tx, run.run_id)
        if row.intent is not Intent.RUN or row.status.is_over:
            return None
        now = self._db.clock()
        claims = _take_claims(tx, row, [MAIN_TASK], _is_claimable(now, token), token, now + expires_in)
        return claims[0] if claims else None

    @reading
    def backlogs(self, connection: Connection, token: str) -> list[Backlog]:
        """Return the runs with tasks to deploy, oldest first."""
        now = self._db.clock()
        waiting_count = func.sum(case((_is_claimable(now, token), 1), else_=0))
        in_cluster_count = func.sum(case((_takes_room(now, token), 1), else_=0))
        query = (
            select(histories.c.id, waiting_count, in_cluster_count, histories.c.max_parallel)
            .join_from(histories, task_histories, tasks.history_id == histories.c.id)
            .where(histories.c.status == RunStatus.PROCESSING, histories.c.intent == Intent.RUN)
            .where(histories.c.installation == OWN_INSTALLATION, _is_watched(now))
            .where(tasks.status.in_((TaskStatus.QUEUED, *IN_CLUSTER)))
            .group_by(histories.c.id, histories.c.max_parallel)
            .having(waiting_count > 0)
            .order_by(histories.c.id)
        )
        rows = connection.execute(query)
        return [Backlog(run_id, int(waiting), int(deployed), most) for run_id, waiting, deployed, most in rows]

    @reading
    def in_cluster(self, connection: Connection, token: str) -> int:
        """Count the tasks that take room in the cluster."""
        tasks_of_runs = task_histories.join(histories, tasks.history_id == histories.c.id)
        query = select(func.count()).select_from(tasks_of_runs).where(_takes_room(self._db.clock(), token))
        return connection.scalar(query) or 0

    @transaction
    def claim_tasks(self, tx: Connection, run_id: int, token: str, expires_in: timedelta, most: int) -> list[Claim]:
        """Claim up to `most` tasks. Return no claims unless the run is PROCESSING, not stopping, and watched."""
        lock_run(tx, run_id)
        row = run_row(tx, run_id)
        if row.status is not RunStatus.PROCESSING or row.intent is not Intent.RUN:
            return []
        now = self._db.clock()
        if not tx.scalar(select(_is_watched(now)).where(histories.c.id == run_id)):
            return []
        numbers = _tasks_to_claim(tx, row, most, now, token)
        return _take_claims(tx, row, numbers, _is_claimable(now, token), token, now + expires_in)

    @transaction
    def deployed(self, tx: Connection, claim: Claim, deployment: Deployment) -> Intent | None:
        """Write the job into the task's row, unless the claim was lost to another caller. Return the run's intent.

        Return None if no row will ever name the job: then the caller has to end the job.
        """
        intent = lock_and_get_intent(tx, claim.run_id)
        job = {"job_name": deployment.job_name, "job_uid": deployment.job_uid, "deployed_at": self._db.clock()}
        emptied = {**NO_CLAIM, **NO_CAUSE, **NO_MESSAGE}
        claimed_task = update(task_histories).where(_claim_holds(claim))
        pending = claimed_task.values(status=TaskStatus.PENDING, version=tasks.version + 1, **job, **emptied)
        was_claimed = tx.execute(pending).rowcount == 1
        return intent if was_claimed or _job_has_a_use(tx, claim, deployment) else None

    @transaction
    def failed(self, tx: Connection, claim: Claim, cause: str, message: str, *, refused: bool) -> None:
        """Write a failed deployment: a refused task is FAILED, any other task keeps its claim until the expiry."""
        lock_run(tx, claim.run_id)
        now = self._db.clock()
        claimed_task = update(task_histories).where(_claim_holds(claim))
        if refused:
            end = {"status": TaskStatus.FAILED, "reason": cause, "message": message, "finished_at": now}
            tx.execute(claimed_task.values(version=tasks.version + 1, **end, **NO_CLAIM, **NO_CAUSE))
        else:
            assignments = (*_cause_assignments(cause, now), (tasks.message, message))
            tx.execute(claimed_task.ordered_values(*assignments, (tasks.version, tasks.version + 1)))

    def explain(self, run_id: int, cause: str) -> None:
        """Write why the run's QUEUED tasks are still queued."""
        # the dispatcher explains at every pass: without the check every pass would change the run's row
        if self._has_another_cause(run_id, cause):
            self._write_cause(run_id, cause)

    @reading
    def _has_another_cause(self, connection: Connection, run_id: int, cause: str) -> bool:
        other = _is_queued_without(cause, run_id, self._db.clock())
        return connection.scalar(select(tasks.task).where(other).limit(1)) is not None

    @transaction
    def _write_cause(self, tx: Connection, run_id: int, cause: str) -> None:
        lock_run(tx, run_id)
        now = self._db.clock()
        assignments = (*_cause_assignments(cause, now), (tasks.version, tasks.version + 1))
        tx.execute(update(task_histories).where(_is_queued_without(cause, run_id, now)).ordered_values(*assignments))


def _is_queued_without(cause: str, run_id: int, now: datetime) -> ColumnElement[bool]:
    """Return the condition for the run's QUEUED tasks with another cause or no cause; tasks in a pause keep theirs."""
    has_another_cause = or_(tasks.cause.is_(None), tasks.cause != cause)
    return and_(tasks.history_id == run_id, _is_queued(now), has_another_cause)


def _is_watched(now: datetime) -> ColumnElement[bool]:
    """Return the condition for runs with a living supervisor: the next look is not overdue by LONGEST_SILENCE.

    If no look is planned yet, the supervisor began, or the run started, within this time. A run without a living
    supervisor gets no more jobs: its row may come from a backup, and the run may be over since.
    """
    run, limit = histories.c, now - LONGEST_SILENCE
    is_young = or_(run.supervisor_began_at > limit, run.started_at > limit)
    return or_(run.next_look_at > limit, and_(run.next_look_at.is_(None), is_young))


def _claim_is_free(now: datetime, token: str) -> ColumnElement[bool]:
    """Return the condition for tasks with a claim that has expired or has the caller's own token.

    The caller may take back its own claim, because it claims only while none of its requests is under way.
    """
    free = or_(tasks.claim_expires_at.is_(None), tasks.claim_expires_at <= now, tasks.claim_token == token)
    return and_(tasks.status == TaskStatus.DEPLOYING, free)


def _is_claimable(now: datetime, token: str) -> ColumnElement[bool]:
    """Return the condition for tasks that the caller may claim."""
    return or_(_is_queued(now), _claim_is_free(now, token))


def _is_queued(now: datetime) -> ColumnElement[bool]:
    """Return the condition for QUEUED tasks without a pause before a retry."""
    has_no_pause = or_(tasks.deploy_after.is_(None), tasks.deploy_after <= now)
    return and_(tasks.status == TaskStatus.QUEUED, has_no_pause)


def _takes_room(now: datetime, token: str) -> ColumnElement[bool]:
    """Return the condition for tasks that have, or may have, a job, and so take room in the cluster.

    A task with a free claim does not count in a PROCESSING run, because there the dispatcher deploys such a task:
    `_is_claimable` counts it. Before, only the run's supervisor deploys the main task.
    """
    is_processing = histories.c.status == RunStatus.PROCESSING
    has_job = and_(tasks.status.in_(IN_CLUSTER), not_(and_(is_processing, _claim_is_free(now, token))))
    return or_(has_job, and_(is_processing, _is_main_in_pause(now)))


def _is_main_in_pause(now: datetime) -> ColumnElement[bool]:
    """Return the condition for main tasks in the pause before a retry.

    A main task keeps its place for its next attempt. Otherwise a child task could take the place, and wait there for
    the main task.
    """
    return and_(tasks.task == MAIN_TASK, tasks.status == TaskStatus.QUEUED, tasks.deploy_after > now)


def _claim_holds(claim: Claim) -> ColumnElement[bool]:
    """Return the condition for the claim's task; no row fulfils the condition if another caller has the claim now."""
    task = and_(tasks.history_id == claim.run_id, tasks.task == claim.task, tasks.attempt == claim.request.attempt)
    return and_(task, tasks.status == TaskStatus.DEPLOYING, tasks.claim_token == claim.token)


def _job_has_a_use(connection: Connection, claim: Claim, deployment: Deployment) -> bool:
    """Return whether a job has a use although its claim was lost. The caller ends a job without a use.

    The job has a use if it is on record already. The job has a use, too, if its attempt is open: the next deployment
    with the same key, or the next look, then puts the job on record.
    """
    query = select(tasks.attempt, tasks.status, tasks.job_uid).where(
        tasks.history_id == claim.run_id, tasks.task == claim.task
    )
    row = connection.execute(query).one_or_none()
    if row is None or row.attempt != claim.request.attempt:
        return False
    return not row.status.is_over or row.job_uid == deployment.job_uid


def _cause_assignments(cause: str, now: datetime) -> tuple[tuple[Any, Any], ...]:
    """Return assignments for the cause and its time, which stays if the cause stays.

    MySQL assigns in order, so the time, which depends on the old cause, comes first.
    """
    since = case((tasks.cause == cause, tasks.cause_since), else_=now)
    return (tasks.cause_since, since), (tasks.cause, cause)


def _tasks_to_claim(connection: Connection, run: Row[Any], most: int, now: datetime, token: str) -> Sequence[int]:
    """Return at most `most` tasks to claim, and not more than the run may have in the cluster.

    Expired claims come first, because their tasks may have a job already.
    """
    if run.max_parallel is not None:
        count = select(func.count()).select_from(task_histories.join(histories, tasks.history_id == histories.c.id))
        in_cluster = connection.scalar(count.where(tasks.history_id == run.id, _takes_room(now, token))) or 0
        most = min(most, run.max_parallel - in_cluster)
    claimable = select(tasks.task).where(tasks.history_id == run.id, _is_claimable(now, token))
    # statuses are stored as text, so DEPLOYING comes before QUEUED
    return connection.scalars(claimable.order_by(tasks.status, tasks.task).limit(max(most, 0))).all()


def _take_claims(
    connection: Connection,
    run: Row[Any],
    numbers: Sequence[int],
    condition: ColumnElement[bool],
    token: str,
    expires_at: datetime,
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
    return [_claim_of_task(run, task, attempt, token, expires_at) for task, attempt in connection.execute(claimed)]


def _claim_of_task(run: Row[Any], task: int, attempt: int, token: str, expires_at: datetime) -> Claim:
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
        not_after=expires_at,
    )
    return Claim(run_id=run.id, task=task, token=token, request=deployment)
