"""Changes of a run's supervisor: take-over by another execution, and reopening. Also the limit clock, and the latest
stop's times for a new supervisor.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Column, Connection, Row, Select, func, select, update

from crawler_lifecycle.adapters.sql.histories import NOT_WAITING
from crawler_lifecycle.adapters.sql.reading import own_row, run_record, run_row
from crawler_lifecycle.adapters.sql.schema import histories, history_logs, task_histories
from crawler_lifecycle.adapters.sql.stops import STOPS
from crawler_lifecycle.adapters.sql.transactions import OnDatabase, fence, hold, log, reading, transaction
from crawler_lifecycle.contract.records import RunRecord
from crawler_lifecycle.contract.states import Intent, RunStatus, StopPhase, TaskStatus
from crawler_lifecycle.contract.steps.run import Clock, RunRef
from crawler_lifecycle.domain.limits import HELD, RELEASED, clock_of
from crawler_lifecycle.domain.naming import MAIN_TASK
from crawler_lifecycle.domain.reasons import DISPATCHER, MAIN_JOB
from crawler_lifecycle.errors import Conflict, Fenced
from crawler_lifecycle.ports import Execution

tasks = task_histories.c
REOPENED = "reopened"
HELD_MESSAGES = {
    True: "all that is left in the cluster is suspended: until that changes, the run's limits of time stand still",
    False: "no longer is all that is left suspended: the run's limits of time count again",
}
# columns about a task's former attempt; the next attempt begins with these columns empty
NO_JOB_YET = dict.fromkeys(
    (
        "cause", "cause_since", "reason", "exit_code", "facts", "job_name", "job_uid", "claim_token",
        "claim_expires_at", "deployed_at", "started_at", "finished_at", "message", "node", "log_tail",
    )
)  # fmt: skip


# columns about a run's former end
NO_END_YET = dict.fromkeys(("finished_at", "reason", "outcome", "stats", "result", "export_state"))


class Supervision(OnDatabase):
    @reading
    def get(self, connection: Connection, run_id: int) -> RunRecord:
        own_row(connection, run_id)
        return run_record(connection, run_id)

    @reading
    def jobs_asked_at(self, connection: Connection, run_id: int) -> datetime | None:
        return _first_at(connection, run_id, [StopPhase.JOBS_ASKED])

    @reading
    def stop_asked_at(self, connection: Connection, run_id: int) -> datetime | None:
        asked_at = _first_at(connection, run_id, STOPS)
        if asked_at is None:
            return None
        # the time in a stop comes from another machine's clock, perhaps a wrong clock
        created_at: datetime = own_row(connection, run_id).created_at
        return min(max(asked_at, created_at), self._db.clock())

    @reading
    def limit_clock(self, connection: Connection, run_id: int) -> Clock:
        return _clock(connection, run_id)

    @transaction
    def hold_limits(self, tx: Connection, run: RunRef, number: int, *, held: bool) -> Clock:
        fence(tx, run)
        end = run_row(tx, run.run_id).end_number
        line = {"at": self._db.clock(), "event": HELD if held else RELEASED, "message": HELD_MESSAGES[held]}
        log(tx, run, f"limits:{end}:{number}", line)
        return _clock(tx, run.run_id)

    @transaction
    def take_over(self, tx: Connection, run_id: int, execution: Execution) -> RunRecord:
        row = _lock_row(tx, run_id, execution)
        if row is not None and not row.status.is_over:
            _supervise(tx, row, execution, "resumed", self._db.clock())
        return run_record(tx, run_id)

    @transaction
    def reopen(self, tx: Connection, run_id: int, execution: Execution) -> RunRecord:
        row = _lock_row(tx, run_id, execution)
        if row is not None:
            if row.status is not RunStatus.FAILED:
                raise Conflict(f"run {run_id} is {row.status}: only a run that ended FAILED is reopened")
            now = self._db.clock()
            _supervise(tx, row, execution, REOPENED, now)
            _queue_again(tx, row, now)
        return run_record(tx, run_id)


def _lock_row(tx: Connection, run_id: int, execution: Execution) -> Row[Any] | None:
    """Lock the run's row and return the row, or None if this execution supervises the run already."""
    hold(tx, run_id)
    row = own_row(tx, run_id)
    if row.workflow_id != execution.workflow_id:
        raise Conflict(f"run {run_id} belongs to workflow {row.workflow_id}, not to {execution.workflow_id}")
    if row.supervisor_run_id == execution.run_id:
        return None
    _refuse_predecessor(row, execution)
    return row


def _first_at(connection: Connection, run_id: int, events: Sequence[str]) -> datetime | None:
    """Return the first such event's time since the run's last reopening, or since its beginning."""
    first: datetime | None = connection.scalar(_events(run_id, events, history_logs.c.at).limit(1))
    return first


def _clock(connection: Connection, run_id: int) -> Clock:
    line = history_logs.c
    return clock_of(
        (at, event) for at, event in connection.execute(_events(run_id, [HELD, RELEASED], line.at, line.event))
    )


def _events(run_id: int, events: Sequence[str], *columns: Column[Any]) -> Select[Any]:
    """Return the statement for these events since the run's last reopening, or since its beginning."""
    line = history_logs.c
    reopened = select(func.max(line.id)).where(line.history_id == run_id, line.event == REOPENED).scalar_subquery()
    lines = select(*columns).where(line.history_id == run_id, line.event.in_(events))
    return lines.where(line.id > func.coalesce(reopened, 0)).order_by(line.id)


def _refuse_predecessor(row: Row[Any], execution: Execution) -> None:
    """Raise Fenced if the present supervisor began after the execution: then the execution's write comes late."""
    known, began_at = row.supervisor_began_at, execution.began_at
    if known is not None and began_at is not None and began_at < known:
        raise Fenced(f"run {row.id} has a later supervisor already, execution {row.supervisor_run_id}")


def _supervise(connection: Connection, row: Row[Any], execution: Execution, event: str, now: datetime) -> None:
    epoch = row.epoch + 1
    values = {
        "epoch": epoch,
        "supervisor_workflow_id": execution.workflow_id,
        "supervisor_run_id": execution.run_id,
        "supervisor_began_at": execution.began_at,
        "next_look_at": None,  # the former supervisor's next look will not come
    }
    # the nudged execution is gone and will not acknowledge: without this, no later change could nudge the run
    answered = {"nudge_acknowledged": row.nudge_sent}
    connection.execute(update(histories).where(histories.c.id == row.id).values(**values, **answered))
    run = RunRef(run_id=row.id, run_uid=row.run_uid, epoch=epoch)
    message = f"its workflow goes on in execution {execution.run_id}"
    log(connection, run, f"{event}:{epoch}", {"at": now, "event": event, "message": message})


def _queue_again(connection: Connection, row: Row[Any], now: datetime) -> None:
    """Open the run's row again, and queue the next attempt for every task without success.

    If the main job has succeeded already, the run counts as started, and child tasks do not wait for the main job.
    """
    main = select(tasks.status).where(tasks.history_id == row.id, tasks.task == MAIN_TASK)
    started = connection.scalar(main) is TaskStatus.SUCCEEDED
    fresh = {"status": RunStatus.PROCESSING if started else RunStatus.INITIALIZING, "intent": Intent.RUN}
    open_again = {"begun_at": now, "started_at": now if started else None}
    values = {**fresh, **open_again, **NO_END_YET, **NOT_WAITING}
    connection.execute(update(histories).where(histories.c.id == row.id).values(values))
    failed = update(task_histories).where(tasks.history_id == row.id, tasks.status != TaskStatus.SUCCEEDED)
    next_attempt = {"attempt": tasks.attempt + 1, "version": tasks.version + 1, "status": TaskStatus.QUEUED}
    cleared = {"queued_at": now, "absent_count": 0, "restarts": 0, "events": "[]", **NO_JOB_YET}
    connection.execute(failed.values(**next_attempt, **cleared))
    cause = {"cause": DISPATCHER if started else MAIN_JOB, "cause_since": now}
    connection.execute(failed.where(tasks.task != MAIN_TASK).values(cause))
