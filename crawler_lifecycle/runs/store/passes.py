"""Claims on tasks: time-limited rights to deploy, taken under a lock on the run's row.

`TaskClaims` has a supervisor's claim on its main task, and a claim's end with or without a job. `Passes` has the
dispatcher's passes: claims on tasks of all runs, as the limits allow, and causes for the tasks that still wait.

The token identifies the dispatcher or worker that claims. The names `IS_...` are conditions for rows of tasks at the
moment and for the token in the parameters from `_at`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import groupby, islice
from operator import attrgetter, itemgetter
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, bindparam, case, func, or_, select, update

from crawler_lifecycle.base.pacing import HELD_PAUSE, ON_THE_WAY
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.pages import pages
from crawler_lifecycle.database.schema import histories, task_histories
from crawler_lifecycle.database.transactions import (
    RUN,
    OnDatabase,
    fence,
    fence_unchanged,
    lock_and_get_intent,
    lock_run,
    reading,
    transaction,
)
from crawler_lifecycle.limits.rules import Hold, plan, total_use
from crawler_lifecycle.limits.store.admission import (
    IS_DEPLOYED_HERE,
    MOST_TASKS,
    NOW,
    asking_run,
    at,
    chosen_runs,
    has_no_pause,
    limits_under_lock,
    lock_admission,
    situation,
)
from crawler_lifecycle.limits.store.holds import (
    end_wait,
    hold_runs,
    holds_behind_front,
    obstacle_for,
    permit,
    runs_of_a_pass,
    take_permit_back,
    write_hold,
    write_holds,
)
from crawler_lifecycle.limits.store.uses import (
    IS_MAIN,
    LABELS,
    append_change,
    are_many,
    counted,
    counting,
    fold,
    scopes_of,
    uses_and_waiting,
)
from crawler_lifecycle.model.deployment import Crawler, Deployment, DeploymentRequest
from crawler_lifecycle.model.naming import MAIN_TASK
from crawler_lifecycle.model.requests import AcceptedRequest
from crawler_lifecycle.model.run_plan import RunRef
from crawler_lifecycle.model.states import Intent, RunStatus, TaskStatus
from crawler_lifecycle.runs.ports import Claim
from crawler_lifecycle.runs.store.reading import own_row, run_row
from crawler_lifecycle.runs.store.stops import claim_nudge

runs, tasks = histories.c, task_histories.c
NO_CLAIM = {"claim_token": None, "claim_expires_at": None}
NO_CAUSE = {"cause": None, "cause_since": None}
NO_MESSAGE = {"message": None}  # drops the explanation why the task was not deployed


# QUEUED tasks without a pause before a retry
IS_QUEUED = and_(tasks.status == TaskStatus.QUEUED, has_no_pause(NOW))
# tasks with a claim that has expired or has the caller's own token: the caller may take back its own claim, because it
# claims only while none of its requests is under way
HAS_FREE_CLAIM = and_(
    tasks.status == TaskStatus.DEPLOYING,
    or_(tasks.claim_expires_at.is_(None), tasks.claim_expires_at <= NOW, tasks.claim_token == bindparam("of_token")),
)
# tasks with a claim expired long enough ago to leave no request on its way
IS_SETTLED = and_(
    tasks.status == TaskStatus.DEPLOYING,
    or_(tasks.claim_expires_at.is_(None), tasks.claim_expires_at <= bindparam("of_settling", type_=NOW.type)),
)
IS_CLAIMABLE = or_(IS_QUEUED, HAS_FREE_CLAIM)
ASKING = chosen_runs(
    *(runs.run_uid, runs.installation, runs.cluster, runs.tasks, runs.request, runs.entry),
    counted(and_(IS_MAIN, tasks.status.in_((TaskStatus.QUEUED, TaskStatus.DEPLOYING)))).label("main_waits"),
    counted(and_(IS_MAIN, IS_CLAIMABLE)).label("is_claimable"),
    counted(and_(IS_MAIN, IS_SETTLED)).label("is_settled"),
    func.max(case((IS_MAIN, tasks.attempt))).label("main_attempt"),
    LABELS,
    runs.changed_at,
)
CHOSEN = update(task_histories).where(
    tasks.history_id == bindparam("of_run"), tasks.task.in_(bindparam("of_tasks", expanding=True))
)
CLAIMED = CHOSEN.values(version=tasks.version + 1, status=TaskStatus.DEPLOYING, **NO_CAUSE)


OWN_CLAIM = and_(
    *(tasks.history_id == bindparam("of_run"), tasks.task == bindparam("of_task")),
    *(tasks.attempt == bindparam("of_attempt"), tasks.claim_token == bindparam("of_token")),
    tasks.status == TaskStatus.DEPLOYING,
)
# no row matches if another caller has the claim now
CLAIM_IN_USE = update(task_histories).where(OWN_CLAIM).values(version=tasks.version + 1)


def _at(now: datetime, token: str) -> dict[str, Any]:
    """Return the parameters for the conditions."""
    return {**at(now), "of_settling": now - ON_THE_WAY, "of_token": token}


def take_claims(
    connection: Connection,
    run: Row[Any],
    chosen: Sequence[tuple[int, int]],
    token: str,
    expires_at: datetime,
    hold: Hold | None = None,
) -> list[Claim]:
    """Claim the tasks: numbers and attempts that the caller has read under the lock on the run's row."""
    if chosen:
        claim = {"claim_token": token, "claim_expires_at": expires_at}
        connection.execute(CLAIMED, {"of_run": run.id, "of_tasks": [task for task, _ in chosen], **claim})
    return [Claim(run.id, task, token, _request_for(run, task, attempt, expires_at), hold) for task, attempt in chosen]


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


class TaskClaims(OnDatabase):
    """The methods in `runs.ports.Claims` for a single task."""

    def __init__(self, db: Database, most_tasks: int = MOST_TASKS) -> None:
        super().__init__(db)
        self._most_tasks = most_tasks

    @transaction
    def claim_main(self, tx: Connection, run: RunRef, token: str, expires_in: timedelta) -> Claim | Hold | None:
        """Claim task 0, and admit the run with its first claim. Return a Hold if a limit or a pause is in the way.

        Return None if the task needs no deployment or is claimed, or if the run stops or is over.
        """
        # read before the lock, and compared under the lock: the time under the lock bounds the starts a second
        row = tx.execute(ASKING, {"run_ids": [run.run_id], **_at(self._db.clock(), token)}).one_or_none()
        if row is None or row.intent is not Intent.RUN or not row.main_waits:
            fence(tx, run)
            if row is None:
                own_row(tx, run.run_id)  # raises Conflict if another installation began the run; otherwise it is over
            return None
        limits = limits_under_lock(tx, self._most_tasks)
        now = self._db.clock()  # after the wait for the lock
        asks = asking_run(row, limits)
        hold = obstacle_for(tx, asks, limits, now)
        # a permit has a time after the end that made room, which may have come since `now`
        admitted = {} if hold or asks.is_admitted else permit(self._db.clock())
        fence_unchanged(tx, run, row.changed_at, admitted)
        if hold:
            # without the acknowledgement, no nudge could notify the workflow when the dispatcher finds the job later
            looked = {"next_look_at": now + HELD_PAUSE, "nudge_acknowledged": runs.nudge_sent}
            write_hold(tx, [run.run_id], hold, now, **looked)
        is_free = row.is_settled if hold else row.is_claimable
        claims = take_claims(tx, row, [(MAIN_TASK, row.main_attempt)] if is_free else [], token, now + expires_in, hold)
        earlier = replace(asks, scopes=scopes_of(row))
        later = replace(
            earlier,
            is_admitted=asks.is_admitted or hold is None,
            main_in_cluster=asks.main_in_cluster or bool(claims),
            held_by=hold.scope if hold else asks.held_by,
        )
        append_change(tx, total_use([earlier]), total_use([later]))
        return claims[0] if claims else hold

    @transaction
    def deployed(self, tx: Connection, claim: Claim, deployment: Deployment) -> Intent | None:
        """Write the job into the task's row, unless the claim was lost to another caller. Return the run's intent.

        Return None if no row will ever name the job: then the caller has to end the job.
        """
        intent = lock_and_get_intent(tx, claim.run_id)
        job = {"job_name": deployment.job_name, "job_uid": deployment.job_uid, "deployed_at": self._db.clock()}
        emptied = {**NO_CLAIM, **NO_CAUSE, **NO_MESSAGE}
        pending = {"status": TaskStatus.PENDING, **job, **emptied}
        was_claimed = tx.execute(CLAIM_IN_USE, {**_key(claim), **pending}).rowcount == 1
        if was_claimed and claim.hold and claim.task == MAIN_TASK:
            claim_nudge(tx, claim.run_id)
        return intent if was_claimed or _job_has_a_use(tx, claim, deployment) else None

    @transaction
    def put_back(self, tx: Connection, claim: Claim, hold: Hold) -> None:
        """Queue the claimed task again. A run that has not started gives its permit back and waits in the queue."""
        lock_admission(tx)
        now = self._db.clock()
        if lock_and_get_intent(tx, claim.run_id) is not Intent.RUN:
            return  # the stop ends the task
        queued = {"status": TaskStatus.QUEUED, "cause": hold.cause, "cause_since": now, **NO_MESSAGE, **NO_CLAIM}
        with counting(tx, claim.run_id):
            was_claimed = tx.execute(CLAIM_IN_USE, {**_key(claim), **queued}).rowcount == 1
            if was_claimed and run_row(tx, claim.run_id).status is RunStatus.INITIALIZING:
                take_permit_back(tx, claim.run_id, hold, now)

    @transaction
    def failed(self, tx: Connection, claim: Claim, cause: str, message: str, *, refused: bool) -> None:
        """Write a failed deployment: a refused task is FAILED, any other task keeps its claim until the expiry."""
        lock_run(tx, claim.run_id)
        now = self._db.clock()
        if refused:
            end = {"status": TaskStatus.FAILED, "reason": cause, "message": message, "finished_at": now}
            with counting(tx, claim.run_id):
                tx.execute(CLAIM_IN_USE, {**_key(claim), **end, **NO_CLAIM, **NO_CAUSE})
            if claim.task == MAIN_TASK:
                claim_nudge(tx, claim.run_id)  # the cluster reports no change, and the run may wait for its permit
        else:
            assignments = (*cause_assignments(cause, now), (tasks.message, message))
            kept = update(task_histories).where(OWN_CLAIM)
            tx.execute(kept.ordered_values(*assignments, (tasks.version, tasks.version + 1)), _key(claim))


def _key(claim: Claim) -> dict[str, Any]:
    """Return the parameters for `OWN_CLAIM`."""
    key = {"of_run": claim.run_id, "of_task": claim.task, "of_attempt": claim.request.attempt}
    return {**key, "of_token": claim.token}


def _job_has_a_use(connection: Connection, claim: Claim, deployment: Deployment) -> bool:
    """Return whether a job has a use although its claim was lost. The caller ends a job without a use.

    The job has a use if it is already recorded. The job has a use, too, if its attempt is open: the next deployment
    with the same key, or the next look, then records the job.
    """
    query = select(tasks.attempt, tasks.status, tasks.job_uid).where(
        tasks.history_id == claim.run_id, tasks.task == claim.task
    )
    row = connection.execute(query).one_or_none()
    if row is None or row.attempt != claim.request.attempt:
        return False
    return not row.status.is_over or row.job_uid == deployment.job_uid


class Passes(TaskClaims):
    """The methods in `runs.ports.Claims` for the dispatcher."""

    def claim_tasks(self, token: str, expires_in: timedelta, most: int) -> list[Claim]:
        """Claim up to `most` tasks of all runs, as the limits allow, and write what holds the other tasks."""
        if not self._has_something_to_deploy(token):
            self._fold_changes()  # otherwise the next start after a quiet day would
            return []
        claims, causes = self._claim_tasks(token, expires_in, most)
        # without the check every pass would change the runs' rows
        for run_id, cause in self._with_another_cause(causes):
            self._write_cause(run_id, cause)
        return claims

    @reading
    def _has_something_to_deploy(self, connection: Connection, token: str) -> bool:
        waiting = select(tasks.task).join_from(histories, task_histories, tasks.history_id == runs.id)
        is_waiting = and_(IS_DEPLOYED_HERE, runs.intent == Intent.RUN, IS_CLAIMABLE)
        return connection.scalar(waiting.where(is_waiting).limit(1), _at(self._db.clock(), token)) is not None

    def _fold_changes(self) -> None:
        with self._db.read() as connection:
            if not are_many(connection):
                return
        self._db.transact(_lock_and_fold)

    @transaction
    def _claim_tasks(
        self, tx: Connection, token: str, expires_in: timedelta, most: int
    ) -> tuple[list[Claim], dict[int, str]]:
        """Return the claims, and by RunID the cause why tasks of PROCESSING runs stay QUEUED."""
        limits = limits_under_lock(tx, self._most_tasks)
        now = self._db.clock()  # after the wait for the lock
        used, _ = uses_and_waiting(tx, limits)
        with_claims = tx.scalars(select(tasks.history_id).where(tasks.status == TaskStatus.DEPLOYING))
        now_open = situation(tx, limits, now, runs_of_a_pass(tx, limits, most, now).union(with_claims))
        pauses = now_open.pauses()
        free = _free_claims(tx, now, token, pauses.keys(), most)
        new = plan(now_open.runs, limits, most - min(len(free), (most + 1) // 2), used)
        claims = list[Claim]()
        for run_id, count in sorted(new.granted.items()):
            # after the ends that made room, which may have come since `now`
            claims += claim_ready_tasks(tx, run_id, count, token, self._db.clock(), expires_in)
        for run_id, numbers in _by_run(free[: most - len(claims)]):
            claims += _claim_again(tx, run_id, numbers, token, now, expires_in, pauses.get(run_id))
        claims.sort(key=attrgetter("run_id", "task"))
        causes = write_holds(tx, now_open, new, now)
        for hold, run_ids in list(holds_behind_front(tx, now_open, new, most, now)):
            hold_runs(tx, run_ids, hold, now)
        return claims, causes

    @reading
    def _with_another_cause(self, connection: Connection, causes: Mapping[int, str]) -> list[tuple[int, str]]:
        """Return the runs with a QUEUED task that has another cause than the given one, or none."""
        now, unexplained = self._db.clock(), list[tuple[int, str]]()
        for cause in set(causes.values()):
            for page in pages([run_id for run_id in causes if causes[run_id] == cause]):
                query = select(tasks.history_id).distinct().where(_is_queued_without(cause, page))
                unexplained += [(run_id, cause) for run_id in connection.scalars(query, {"of_now": now})]
        return unexplained

    @transaction
    def _write_cause(self, tx: Connection, run_id: int, cause: str) -> None:
        """Write why the run's QUEUED tasks are still queued."""
        lock_run(tx, run_id)
        now = self._db.clock()
        assignments = (*cause_assignments(cause, now), (tasks.version, tasks.version + 1))
        queued = update(task_histories).where(_is_queued_without(cause, [run_id]))
        tx.execute(queued.ordered_values(*assignments), {"of_now": now})


def _lock_and_fold(tx: Connection) -> None:
    lock_admission(tx)
    fold(tx)


def _is_queued_without(cause: str, run_ids: Sequence[int]) -> ColumnElement[bool]:
    """Return the condition for the runs' QUEUED tasks with another cause or no cause; tasks in a pause keep theirs."""
    has_another_cause = or_(tasks.cause.is_(None), tasks.cause != cause)
    return and_(tasks.history_id.in_(run_ids), IS_QUEUED, has_another_cause)


def _free_claims(
    connection: Connection, now: datetime, token: str, paused: Collection[int], most: int
) -> list[tuple[int, int]]:
    """Return the run and number of at most `most` tasks with a free claim: their jobs may exist already.

    These tasks have their places. The claims that expire first come first: a claim that is taken again comes last, so
    a task whose deployment fails again and again keeps no other task waiting. Claims of `paused` runs (RunIDs) are free
    when no earlier request is on its way any more: only then a look proves that there is no job.
    """
    query = select(tasks.history_id, tasks.task, IS_SETTLED.label("is_settled"))
    joined = query.join_from(histories, task_histories, tasks.history_id == runs.id)
    free = joined.where(IS_DEPLOYED_HERE, runs.intent == Intent.RUN, HAS_FREE_CLAIM)
    ordered = free.order_by(tasks.claim_expires_at, tasks.history_id, tasks.task)
    rows = connection.execute(ordered if paused else ordered.limit(most), _at(now, token))
    may_be_claimed = ((row.history_id, row.task) for row in rows if row.is_settled or row.history_id not in paused)
    return list(islice(may_be_claimed, most))


def _by_run(numbered: Iterable[tuple[int, int]]) -> Iterator[tuple[int, list[int]]]:
    """Yield the RunIDs with their task numbers, in the order of all locks on runs' rows."""
    for run_id, group in groupby(sorted(numbered), key=itemgetter(0)):
        yield run_id, [task for _, task in group]


def claim_ready_tasks(
    connection: Connection, run_id: int, count: int, token: str, now: datetime, expires_in: timedelta
) -> list[Claim]:
    """Admit the run, if it waits for its permit, and claim its next QUEUED tasks. The main task comes first."""
    lock_run(connection, run_id)
    row = run_row(connection, run_id)
    if row.status.is_over or row.intent is not Intent.RUN:
        return []
    ready = select(tasks.task, tasks.attempt).where(tasks.history_id == run_id, IS_QUEUED)
    if row.status is RunStatus.INITIALIZING:  # the child tasks wait until the main job has started
        ready = ready.where(tasks.task == MAIN_TASK)
    chosen = connection.execute(ready.order_by(tasks.task).limit(count), {"of_now": now}).all()
    with counting(connection, run_id):
        if row.admitted_at is None:
            connection.execute(RUN, {"of_run": run_id, **permit(now)})
        return take_claims(connection, row, chosen, token, now + expires_in)


def _claim_again(
    connection: Connection,
    run_id: int,
    numbers: Sequence[int],
    token: str,
    now: datetime,
    expires_in: timedelta,
    pause: Hold | None,
) -> list[Claim]:
    """Claim tasks whose jobs may exist already: with a pause only to find the jobs, otherwise to deploy the tasks."""
    lock_run(connection, run_id)
    row = run_row(connection, run_id)
    if row.status.is_over or row.intent is not Intent.RUN:
        return []
    if pause is None and row.status is RunStatus.INITIALIZING:
        end_wait(connection, run_id)
    free = select(tasks.task, tasks.attempt).where(tasks.history_id == run_id, tasks.task.in_(numbers))
    free = free.where(IS_SETTLED if pause else HAS_FREE_CLAIM).order_by(tasks.task)
    chosen = connection.execute(free, _at(now, token)).all()
    return take_claims(connection, row, chosen, token, now + expires_in, pause)
