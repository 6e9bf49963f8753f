"""Runs' rows, written by supervisors: a run's start, waits, looks and end."""

from contextlib import nullcontext
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Update, and_, bindparam, case, func, select, update

from crawler_lifecycle.database.pages import ROWS_IN_A_PAGE
from crawler_lifecycle.database.schema import histories, history_logs, task_histories
from crawler_lifecycle.database.transactions import (
    RUN,
    fence,
    is_logged,
    keep_property,
    log,
    missing_run,
    reading,
    transaction,
)
from crawler_lifecycle.errors import Conflict, Fenced, NotFound
from crawler_lifecycle.limits.store.uses import counting
from crawler_lifecycle.metrics import RUNS_ENDED, START_SECONDS, STOP_SECONDS
from crawler_lifecycle.model.crawl_results import CrawlResult, summed
from crawler_lifecycle.model.naming import MAIN_TASK
from crawler_lifecycle.model.outcome_words import outcome_word
from crawler_lifecycle.model.reasons import DISPATCHER
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.requests import KeptRequest
from crawler_lifecycle.model.run_plan import RunRef
from crawler_lifecycle.model.states import ALIVE, ExportState, Intent, RunStatus, TaskStatus
from crawler_lifecycle.runs.ports import LookEnd, RunState
from crawler_lifecycle.runs.rules.outcome import SENTENCES, in_a_sentence
from crawler_lifecycle.runs.store.creation import RunCreation
from crawler_lifecycle.runs.store.manager_runs import tell_end
from crawler_lifecycle.runs.store.reading import run_record, run_row
from crawler_lifecycle.runs.store.usage import use_of

STOP, FORCE_STOP = "stop", "force stop"  # events in timeline lines
STOP_EVENTS = (STOP, FORCE_STOP)
FIRST_STOP = select(func.min(history_logs.c.at)).where(
    history_logs.c.history_id == bindparam("of_run"),
    history_logs.c.event.in_(STOP_EVENTS),
    history_logs.c.at >= bindparam("of_since", type_=history_logs.c.at.type),  # a reopened run had earlier stops
)
# columns' values for a run without a wait, and for a run's end
NOT_WAITING = {"waiting_cause": None, "waiting_since": None, "waiting_message": None, "held_by": None}
ENDING = {"export_state": ExportState.PENDING, "next_look_at": None, **NOT_WAITING}
STATE_COLUMNS = sorted(RunState.__dataclass_fields__.keys() - {"run_id", "retries", "flow"})
STATE = select(*(histories.c[name] for name in (*STATE_COLUMNS, "epoch", "request"))).where(
    histories.c.id == bindparam("of_run")
)
LOOK_END = (
    select(histories.c.waiting_cause, histories.c.admitted_at, task_histories.c.status, func.count().label("tasks"))
    .join_from(histories, task_histories, task_histories.c.history_id == histories.c.id)
    .where(histories.c.id == bindparam("of_run"))
    .group_by(histories.c.waiting_cause, histories.c.admitted_at, task_histories.c.status)
)


class Histories(RunCreation):
    """The methods in `runs.ports.Runs` for a run's states."""

    @reading
    def current(self, connection: Connection, run: RunRef) -> RunRecord:
        record = run_record(connection, run.run_id)
        _refuse_another(run, record.run_uid, record.epoch)
        return record

    @reading
    def state(self, connection: Connection, run: RunRef) -> RunState:
        row = connection.execute(STATE, {"of_run": run.run_id}).one_or_none()
        if row is None:
            raise missing_run(connection, run.run_id)
        _refuse_another(run, row.run_uid, row.epoch)
        request = KeptRequest.model_validate_json(row.request)
        return RunState(
            run.run_id,
            retries=request.retries,
            flow=request.flow,
            **{name: row._mapping[name] for name in STATE_COLUMNS},
        )

    @transaction
    def set_property(self, tx: Connection, run: RunRef, name: str, value: str) -> None:
        fence(tx, run)
        keep_property(tx, run, name, value)

    def note(self, run: RunRef, key: str, event: str, message: str, *, hurried: bool = False) -> None:
        def write(tx: Connection) -> None:
            fence(tx, run)
            log(tx, run, key, {"at": self._db.clock(), "event": event, "message": message})

        self._db.transact(write, hurried=hurried)

    @reading
    def has_note(self, connection: Connection, run: RunRef, key: str) -> bool:
        return is_logged(connection, run, key)

    def mark_started(self, run: RunRef, started_at: datetime | None = None) -> RunRecord:
        """Turn INITIALIZING to PROCESSING. The present time replaces a missing or impossible `started_at`."""
        record, is_new = self._mark_started(run, started_at)
        if is_new and record.started_at is not None:
            START_SECONDS.observe((record.started_at - record.begun_at).total_seconds())
        return record

    @transaction
    def _mark_started(self, tx: Connection, run: RunRef, started_at: datetime | None) -> tuple[RunRecord, bool]:
        """Return the run, and whether this call was the first."""
        fence(tx, run)
        row, now = run_row(tx, run.run_id), self._db.clock()
        is_new = row.status is RunStatus.INITIALIZING
        if is_new:
            is_possible = started_at is not None and row.begun_at <= started_at <= now
            values = {"status": RunStatus.PROCESSING, "started_at": started_at if is_possible else now, **NOT_WAITING}
            with counting(tx, run.run_id) if row.held_by and row.admitted_at is None else nullcontext():
                tx.execute(RUN, {"of_run": run.run_id, **values})
            if row.tasks > 1:
                tx.execute(_update_of_queued_tasks(run.run_id).values(cause=DISPATCHER, cause_since=now))
            line = {"at": now, "event": "started", "message": "the main job has started"}
            log(tx, run, f"started:{row.end_number}", line)
        return run_record(tx, run.run_id), is_new

    @transaction
    def mark_waiting(self, tx: Connection, run: RunRef, cause: str | None, message: str | None) -> datetime | None:
        """Write why the run waits (None: no wait). Return when the wait began; None without a wait."""
        fence(tx, run)
        row = run_row(tx, run.run_id)
        if row.status.is_over:
            return None
        since = None
        if cause is not None:
            since = row.waiting_since if row.waiting_cause == cause else self._db.clock()
        values = {"waiting_cause": cause, "waiting_since": since, "waiting_message": message}
        tx.execute(RUN, {"of_run": run.run_id, **values})
        return since

    @transaction
    def mark_look(
        self, tx: Connection, run: RunRef, nudge: int, known: bool, problem: str | None, next_look_at: datetime | None
    ) -> LookEnd:
        """Write a look's end: acknowledge its nudge and, if the cluster was observed (`known`), note the time."""
        column = histories.c
        latest_nudge = case((column.nudge_acknowledged < nudge, nudge), else_=column.nudge_acknowledged)
        assignments = [
            (column.nudge_acknowledged, latest_nudge),
            (column.look_problem, problem),
            (column.next_look_at, next_look_at),
        ]
        if known:
            assignments.append((column.last_look_at, self._db.clock()))
        fence(tx, run, *assignments)
        rows = tx.execute(LOOK_END, {"of_run": run.run_id}).all()
        return LookEnd({row.status: row.tasks for row in rows}, rows[0].waiting_cause, rows[0].admitted_at)

    def close(self, run: RunRef, status: RunStatus, reason: str) -> RunRecord:
        """Write the run's end. A run that is over keeps its first end. Raise Conflict while a task is alive."""
        record, is_new, stop_asked_at = self._close(run, status, reason)
        if is_new:
            RUNS_ENDED.labels(status, reason if reason in SENTENCES else "other").inc()
            if stop_asked_at is not None:  # the time comes from another clock, which may be ahead
                STOP_SECONDS.observe(max(0.0, (self._db.clock() - stop_asked_at).total_seconds()))
        return record

    @transaction
    def _close(
        self, tx: Connection, run: RunRef, status: RunStatus, reason: str
    ) -> tuple[RunRecord, bool, datetime | None]:
        """As `close`; also return whether this call was the first, and the time when a stop was first requested."""
        fence(tx, run)
        row = run_row(tx, run.run_id)
        is_new, stop_asked_at = not row.status.is_over, None
        if is_new:
            _refuse_while_a_task_is_alive(tx, run.run_id)
            now, number = self._db.clock(), row.end_number + 1
            values = {"status": status, "reason": reason, "finished_at": now, "end_number": number, **ENDING}
            if row.intent is not Intent.RUN:
                stop_asked_at = tx.scalar(FIRST_STOP, {"of_run": run.run_id, "of_since": row.begun_at})
            values |= _account(tx, run.run_id, status, reason) | use_of(tx, row)
            with counting(tx, run.run_id):
                tx.execute(RUN, {"of_run": run.run_id, **values})
            if row.flow_manager is not None:
                tell_end(tx, row, values)
            log(tx, run, f"ended:{number}", {"at": now, "event": "ended", "message": in_a_sentence(status, reason)})
        return run_record(tx, run.run_id), is_new, stop_asked_at


def _update_of_queued_tasks(run_id: int) -> Update:
    row = task_histories.c
    return update(task_histories).where(row.history_id == run_id, row.status == TaskStatus.QUEUED)


def _refuse_another(run: RunRef, run_uid: str, epoch: int) -> None:
    """Raise NotFound if the RunID belongs to another run, and Fenced if the run has another supervisor."""
    if run_uid != run.run_uid:
        raise NotFound(f"there is no run {run.run_id} with the uid {run.run_uid}")
    if epoch != run.epoch:
        raise Fenced(f"run {run.run_id} has another supervisor now (epoch {epoch}, ours is {run.epoch})")


def _account(connection: Connection, run_id: int, status: RunStatus, reason: str) -> dict[str, Any]:
    """Return the values for the columns about the end, from the results in the run's tasks."""
    row = task_histories.c
    query = select(row.task, row.reason, row.job_uid, row.facts).where(row.history_id == run_id)
    main = connection.execute(query.where(row.task == MAIN_TASK)).one()
    own = _result_in(main) or CrawlResult()
    # the rows are read one after the other, since the results of all tasks may fill the memory
    rows = connection.execute(query.where(row.facts.is_not(None)).execution_options(yield_per=ROWS_IN_A_PAGE))
    sums = summed(result for task in rows if (result := _result_in(task)))
    return {
        "outcome": outcome_word(status, reason, main.reason, own.outcome),
        "stats": sums or None,
        "result": own.result,
    }


def _result_in(task: Any) -> CrawlResult | None:
    """Return the crawl result of the task's present job."""
    return task.facts.result if task.facts and task.facts.job_uid == task.job_uid else None


def _refuse_while_a_task_is_alive(connection: Connection, run_id: int) -> None:
    alive = and_(task_histories.c.history_id == run_id, task_histories.c.status.in_(ALIVE))
    if count := connection.scalar(select(func.count()).select_from(task_histories).where(alive)):
        raise Conflict(f"run {run_id} cannot end: {count} of its tasks are not over")
