"""Claims on single tasks: a supervisor's claim on its main task, and a claim's end with or without a job."""

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, and_, select, update

from crawler_lifecycle.base.pacing import HELD_PAUSE
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.schema import histories, task_histories
from crawler_lifecycle.database.transactions import OnDatabase, fence, lock_and_get_intent, lock_run, transaction
from crawler_lifecycle.limits.rules.rooms import Hold
from crawler_lifecycle.limits.store.admission import MOST_TASKS, lock_admission
from crawler_lifecycle.limits.store.holds import admit, obstacle_for, take_permit_back, write_hold
from crawler_lifecycle.limits.store.uses import counting
from crawler_lifecycle.model.deployment import Deployment
from crawler_lifecycle.model.naming import MAIN_TASK
from crawler_lifecycle.model.run_plan import RunRef
from crawler_lifecycle.model.states import Intent, RunStatus, TaskStatus
from crawler_lifecycle.runs.ports.runs import Claim
from crawler_lifecycle.runs.store.claiming import (
    NO_CAUSE,
    NO_CLAIM,
    cause_assignments,
    is_claimable,
    is_settled,
    take_claims,
)
from crawler_lifecycle.runs.store.nudges import claim_nudge
from crawler_lifecycle.runs.store.reading import run_row

runs, tasks = histories.c, task_histories.c
NO_MESSAGE = {"message": None}  # drops the explanation why the task was not deployed


class TaskClaims(OnDatabase):
    """The methods in `runs.ports.Claims` for a single task."""

    def __init__(self, db: Database, most_tasks: int = MOST_TASKS) -> None:
        super().__init__(db)
        self._most_tasks = most_tasks

    def _lock_admission(self, tx: Connection) -> datetime:
        """Return the time after the wait for the lock."""
        lock_admission(tx)
        return self._db.clock()

    @transaction
    def claim_main(self, tx: Connection, run: RunRef, token: str, expires_in: timedelta) -> Claim | Hold | None:
        """Claim task 0, and admit the run with its first claim. Return a Hold if a limit or a pause is in the way.

        Return None if the task needs no deployment or is claimed, or if the run stops or is over.
        """
        now = self._lock_admission(tx)
        fence(tx, run)
        row = run_row(tx, run.run_id)
        if row.intent is not Intent.RUN or row.status.is_over or not _main_waits(tx, run.run_id):
            return None
        hold = obstacle_for(tx, run.run_id, self._most_tasks, now)
        if hold:
            # without the acknowledgement, no nudge could notify the workflow when the dispatcher finds the job later
            looked = {"next_look_at": now + HELD_PAUSE, "nudge_acknowledged": runs.nudge_sent}
            write_hold(tx, [run.run_id], hold, now, **looked)
        is_free = is_settled(now) if hold else is_claimable(now, token)
        with counting(tx, run.run_id):
            if not hold and row.admitted_at is None:
                admit(tx, run.run_id, self._db.clock())  # after the end that made room, which may have come since `now`
            claims = take_claims(tx, row, [MAIN_TASK], is_free, token, now + expires_in, hold)
        return claims[0] if claims else hold

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
        if was_claimed and claim.hold and claim.task == MAIN_TASK:
            claim_nudge(tx, claim.run_id)
        return intent if was_claimed or _job_has_a_use(tx, claim, deployment) else None

    @transaction
    def put_back(self, tx: Connection, claim: Claim, hold: Hold) -> None:
        """Queue the claimed task again. A run that has not started gives its permit back and waits in the queue."""
        now = self._lock_admission(tx)
        if lock_and_get_intent(tx, claim.run_id) is not Intent.RUN:
            return  # the stop ends the task
        waiting = {"cause": hold.cause, "cause_since": now, **NO_MESSAGE}
        queued = update(task_histories).where(_claim_holds(claim)).values(status=TaskStatus.QUEUED, **waiting)
        with counting(tx, claim.run_id):
            was_claimed = tx.execute(queued.values(version=tasks.version + 1, **NO_CLAIM)).rowcount == 1
            if was_claimed and run_row(tx, claim.run_id).status is RunStatus.INITIALIZING:
                take_permit_back(tx, claim.run_id, hold, now)

    @transaction
    def failed(self, tx: Connection, claim: Claim, cause: str, message: str, *, refused: bool) -> None:
        """Write a failed deployment: a refused task is FAILED, any other task keeps its claim until the expiry."""
        lock_run(tx, claim.run_id)
        now = self._db.clock()
        claimed_task = update(task_histories).where(_claim_holds(claim))
        if refused:
            end = {"status": TaskStatus.FAILED, "reason": cause, "message": message, "finished_at": now}
            with counting(tx, claim.run_id):
                tx.execute(claimed_task.values(version=tasks.version + 1, **end, **NO_CLAIM, **NO_CAUSE))
            if claim.task == MAIN_TASK:
                claim_nudge(tx, claim.run_id)  # the cluster reports no change, and the run may wait for its permit
        else:
            assignments = (*cause_assignments(cause, now), (tasks.message, message))
            tx.execute(claimed_task.ordered_values(*assignments, (tasks.version, tasks.version + 1)))


def _main_waits(connection: Connection, run_id: int) -> bool:
    """Return whether the main task has no recorded job and is not over."""
    is_main = and_(tasks.history_id == run_id, tasks.task == MAIN_TASK)
    status = connection.scalar(select(tasks.status).where(is_main))
    return status in (TaskStatus.QUEUED, TaskStatus.DEPLOYING)


def _claim_holds(claim: Claim) -> ColumnElement[bool]:
    """Return the condition for the claim's task; no row fulfils the condition if another caller has the claim now."""
    task = and_(tasks.history_id == claim.run_id, tasks.task == claim.task, tasks.attempt == claim.request.attempt)
    return and_(task, tasks.status == TaskStatus.DEPLOYING, tasks.claim_token == claim.token)


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
