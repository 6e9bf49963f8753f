"""Changes of a run's supervisor: take-over of an open run by another workflow execution, and reopening of a failed run.

A new supervisor also reads from the timeline when the run's stop was requested, and how the limit clock stands.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import Column, Connection, Row, Select, and_, func, select, update

from crawler_lifecycle.base.requesters import Requester
from crawler_lifecycle.database.schema import histories, history_logs, task_histories
from crawler_lifecycle.database.transactions import OnDatabase, fence, lock_run, log, reading, transaction
from crawler_lifecycle.errors import Conflict, Fenced
from crawler_lifecycle.model.naming import MAIN_TASK
from crawler_lifecycle.model.reasons import DISPATCHER, MAIN_JOB, PAUSED
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.run_plan import Clock, RunRef
from crawler_lifecycle.model.states import Intent, RunStatus, StopPhase, TaskStatus
from crawler_lifecycle.runs.ports import SupervisorExecution
from crawler_lifecycle.runs.rules.limits import HELD, RELEASED, clock_of
from crawler_lifecycle.runs.store.histories import NOT_WAITING, STOP_EVENTS
from crawler_lifecycle.runs.store.manager_runs import tell_reopening
from crawler_lifecycle.runs.store.reading import own_row, run_record, run_row
from crawler_lifecycle.runs.store.tasks import NO_RETRIES_YET, keep_former_attempts, next_attempt

tasks = task_histories.c
REOPENED = "reopened"
# messages of timeline lines about the limit clock
SUSPENDED = "all remaining jobs in the cluster are suspended: the run's time limits do not count until one resumes"
IN_A_PAUSE = "the run waits for the end of a pause: its time limits do not count until then"
WITHOUT_PERMIT = "the run is queued: its time limits do not count until it has a permit"
GOES_ON = "the run's time limits count again"
# columns about a run's previous end
NO_END_YET = dict.fromkeys(("finished_at", "reason", "outcome", "stats", "result", "export_state"))


class Supervision(OnDatabase):
    """The methods in `runs.ports.Runs` for supervisors."""

    @reading
    def get(self, connection: Connection, run_id: int) -> RunRecord:
        """Return the run. Raise NotFound without such a run, Conflict if another installation began the run."""
        own_row(connection, run_id)
        return run_record(connection, run_id)

    @reading
    def jobs_asked_at(self, connection: Connection, run_id: int) -> datetime | None:
        """Return when the first job was asked to end; None without such a request."""
        return _time_of_first_event(connection, run_id, [StopPhase.JOBS_ASKED])

    @reading
    def stop_asked_at(self, connection: Connection, run_id: int) -> datetime | None:
        """Return when the first stop was requested; None without a stop."""
        asked_at = _time_of_first_event(connection, run_id, STOP_EVENTS)
        if asked_at is None:
            return None
        # the time comes from another machine, whose clock may be wrong: keep the time between the creation and now
        created_at: datetime = own_row(connection, run_id).created_at
        return min(max(asked_at, created_at), self._db.clock())

    @reading
    def limit_clock(self, connection: Connection, run_id: int) -> Clock:
        return _limit_clock(connection, run_id)

    @transaction
    def hold_limits(self, tx: Connection, run: RunRef, number: int, *, held: bool) -> Clock:
        """Log that the limit clock stops (`held`) or continues, once for a change's number. Return the clock."""
        fence(tx, run)
        row = run_row(tx, run.run_id)
        line = {
            "at": self._db.clock(),
            "event": HELD if held else RELEASED,
            "message": _cause(row) if held else GOES_ON,
        }
        log(tx, run, f"limits:{row.end_number}:{number}", line)
        return _limit_clock(tx, run.run_id)

    @transaction
    def log_command(self, tx: Connection, run_id: int, command: str, requester: Requester) -> None:
        row = own_row(tx, run_id)
        run = RunRef(run_id=run_id, run_uid=row.run_uid, epoch=row.epoch)
        line = {"at": self._db.clock(), "event": f"{command} requested", "message": "by a command", **requester.record}
        log(tx, run, str(uuid4()), line, is_new=True)  # each request has a line of its own

    @transaction
    def take_over(self, tx: Connection, run_id: int, execution: SupervisorExecution) -> RunRecord:
        """Make the execution the supervisor of an open run. A run that is over stays as it is."""
        row = _lock_for_change(tx, run_id, execution)
        if row is not None and not row.status.is_over:
            _write_supervisor(tx, row, execution, "resumed", self._db.clock())
        return run_record(tx, run_id)

    @transaction
    def reopen(self, tx: Connection, run_id: int, execution: SupervisorExecution) -> RunRecord:
        """Open a FAILED run again, with the execution as its supervisor. A second call changes no row."""
        row = _lock_for_change(tx, run_id, execution)
        if row is not None:
            if row.status is not RunStatus.FAILED:
                raise Conflict(f"run {run_id} is {row.status}: only a run that ended FAILED is reopened")
            if row.flow_manager is not None:
                tell_reopening(tx, row)
            now = self._db.clock()
            _write_supervisor(tx, row, execution, REOPENED, now)
            _queue_next_attempts(tx, row, now)
        return run_record(tx, run_id)


def _cause(row: Row[Any]) -> str:
    """Return why the run's limit clock is stopped."""
    if row.admitted_at is None:
        return WITHOUT_PERMIT
    return IN_A_PAUSE if row.waiting_cause == PAUSED else SUSPENDED


def _lock_for_change(tx: Connection, run_id: int, execution: SupervisorExecution) -> Row[Any] | None:
    """Lock the run's row and return the row; None if this execution supervises the run already.

    Raise Conflict if the run belongs to another workflow id, and Fenced if a later execution supervises the run.
    """
    lock_run(tx, run_id)
    row = own_row(tx, run_id)
    if row.workflow_id != execution.workflow_id:
        raise Conflict(f"run {run_id} belongs to workflow {row.workflow_id}, not to {execution.workflow_id}")
    if row.supervisor_run_id == execution.run_id:
        return None
    _refuse_earlier_execution(row, execution)
    return row


def _time_of_first_event(connection: Connection, run_id: int, events: Sequence[str]) -> datetime | None:
    """Return when the first of these events happened since the run was opened or reopened; None without an event."""
    happened_at: datetime | None = connection.scalar(_events_since_opening(run_id, events, history_logs.c.at).limit(1))
    return happened_at


def _limit_clock(connection: Connection, run_id: int) -> Clock:
    line = history_logs.c
    return clock_of(
        (at, event)
        for at, event in connection.execute(_events_since_opening(run_id, [HELD, RELEASED], line.at, line.event))
    )


def _events_since_opening(run_id: int, events: Sequence[str], *columns: Column[Any]) -> Select[Any]:
    """Return the statement for timeline lines with these events since the run was opened or reopened, oldest first."""
    line = history_logs.c
    reopening = select(func.max(line.id)).where(line.history_id == run_id, line.event == REOPENED).scalar_subquery()
    lines = select(*columns).where(line.history_id == run_id, line.event.in_(events))
    return lines.where(line.id > func.coalesce(reopening, 0)).order_by(line.id)


def _refuse_earlier_execution(row: Row[Any], execution: SupervisorExecution) -> None:
    """Raise Fenced if the execution began before the present supervisor: then the execution's write comes too late."""
    supervisor_began_at, began_at = row.supervisor_began_at, execution.began_at
    if supervisor_began_at is None or began_at is None:
        return
    if began_at < supervisor_began_at:
        raise Fenced(f"run {row.id} has a later supervisor already, execution {row.supervisor_run_id}")


def _write_supervisor(
    connection: Connection, row: Row[Any], execution: SupervisorExecution, event: str, now: datetime
) -> None:
    """Make the execution the run's supervisor, and log the event."""
    epoch = row.epoch + 1
    values = {
        "epoch": epoch,
        "supervisor_workflow_id": execution.workflow_id,
        "supervisor_run_id": execution.run_id,
        "supervisor_began_at": execution.began_at,
        "next_look_at": None,  # the previous supervisor's next look will not come
    }
    # the previous supervisor cannot acknowledge its last nudge, and an open nudge prevents the next nudge
    acknowledged = {"nudge_acknowledged": row.nudge_sent}
    connection.execute(update(histories).where(histories.c.id == row.id).values(**values, **acknowledged))
    run = RunRef(run_id=row.id, run_uid=row.run_uid, epoch=epoch)
    message = f"its workflow continues in execution {execution.run_id}"
    log(connection, run, f"{event}:{epoch}", {"at": now, "event": event, "message": message})


def _queue_next_attempts(connection: Connection, row: Row[Any], now: datetime) -> None:
    """Open the run's row again, and queue the next attempt for every task without success.

    If the main job has succeeded already, the run counts as started, and child tasks do not wait for the main job.
    """
    main_status = select(tasks.status).where(tasks.history_id == row.id, tasks.task == MAIN_TASK)
    is_started = connection.scalar(main_status) is TaskStatus.SUCCEEDED
    status = RunStatus.PROCESSING if is_started else RunStatus.INITIALIZING
    times = {"begun_at": now, "started_at": now if is_started else None, "admitted_at": None}
    values = {"status": status, "intent": Intent.RUN, **times, **NO_END_YET, **NOT_WAITING}
    connection.execute(update(histories).where(histories.c.id == row.id).values(values))
    without_success = and_(tasks.history_id == row.id, tasks.status != TaskStatus.SUCCEEDED)
    keep_former_attempts(connection, without_success)
    cause = {"cause": DISPATCHER if is_started else MAIN_JOB, "cause_since": now}
    failed = update(task_histories).where(without_success)
    connection.execute(failed.values(**next_attempt(now), **NO_RETRIES_YET))
    connection.execute(failed.where(tasks.task != MAIN_TASK).values(cause))
