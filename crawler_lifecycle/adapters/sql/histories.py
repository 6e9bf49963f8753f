"""Runs' rows, written by supervisors: a run's creation, start, waits, looks and end."""

from datetime import datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, Update, and_, bindparam, case, func, insert, select, update

from crawler_lifecycle.adapters.sql.attempts import NO_RETRIES_YET
from crawler_lifecycle.adapters.sql.flow_schema import flow_attempts, flows
from crawler_lifecycle.adapters.sql.manager_runs import tell_end, tell_run
from crawler_lifecycle.adapters.sql.pages import ROWS_IN_A_PAGE, pages
from crawler_lifecycle.adapters.sql.reading import run_of_execution, run_record, run_row
from crawler_lifecycle.adapters.sql.schema import (
    LONGEST_WORKFLOW_ID,
    histories,
    history_labels,
    installation,
    run_tags,
    task_histories,
)
from crawler_lifecycle.adapters.sql.transactions import (
    OPEN_STATUSES,
    RUN,
    OnDatabase,
    fence,
    is_logged,
    keep_property,
    log,
    reading,
    transaction,
)
from crawler_lifecycle.contract.crawl_result import CrawlResult
from crawler_lifecycle.contract.records import RunRecord
from crawler_lifecycle.contract.requests import FlowLink, KeptRequest
from crawler_lifecycle.contract.states import ALIVE, ExportState, Intent, RunStatus, TaskStatus
from crawler_lifecycle.contract.steps.run import RunRef
from crawler_lifecycle.domain.crawl_results import summed
from crawler_lifecycle.domain.naming import MAIN_TASK
from crawler_lifecycle.domain.outcome import in_a_sentence
from crawler_lifecycle.domain.outcome_words import outcome_word
from crawler_lifecycle.domain.reasons import DISPATCHER, MAIN_JOB
from crawler_lifecycle.domain.words import counted
from crawler_lifecycle.errors import BadInput, Conflict, Fenced, NotFound, NotReady
from crawler_lifecycle.ports import LookEnd, NewRun, RunState

FIRST_EPOCH = 1
# columns' values for a run without a wait, for a run's end, and for a new task
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
FLOW = select(flows.c.id).where(flows.c.uid == bindparam("of_uid"))
ATTEMPT_LOCKED = (
    select(flow_attempts.c.ended_at)
    .where(
        flow_attempts.c.flow == bindparam("of_flow"),
        flow_attempts.c.member == bindparam("of_member"),
        flow_attempts.c.attempt == bindparam("of_attempt"),
    )
    .with_for_update()
)
NEW_TASK = {
    "attempt": 1,
    "version": 1,
    "status": TaskStatus.QUEUED,
    "absent_count": 0,
    "restarts": 0,
    "events": "[]",
    **NO_RETRIES_YET,
}


class Histories(OnDatabase):
    """The methods in `ports.Runs` for a run's states."""

    def create(self, new: NewRun) -> RunRecord:
        """Return the workflow execution's run; create the run unless the run exists."""
        if not 1 <= len(new.workflow_id) <= LONGEST_WORKFLOW_ID:
            raise BadInput("workflow_id", f"expected 1 to {LONGEST_WORKFLOW_ID} characters")
        try:
            return self._insert(new)
        except Conflict:  # another try by the same execution may have created the run
            if run := self.find(new.workflow_id, new.first_execution_run_id):
                return run
            self._refuse_second_run(new)
            raise

    @reading
    def _refuse_second_run(self, connection: Connection, new: NewRun) -> None:
        _refuse_second_run_of_attempt(connection, new)

    @reading
    def current(self, connection: Connection, run: RunRef) -> RunRecord:
        record = run_record(connection, run.run_id)
        _refuse_another(run, record.run_uid, record.epoch)
        return record

    @reading
    def state(self, connection: Connection, run: RunRef) -> RunState:
        row = connection.execute(STATE, {"of_run": run.run_id}).one_or_none()
        if row is None:
            raise NotFound(f"there is no run {run.run_id}")
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

    @transaction
    def mark_started(self, tx: Connection, run: RunRef, started_at: datetime | None = None) -> RunRecord:
        """Turn INITIALIZING to PROCESSING. The present time replaces a missing or impossible `started_at`."""
        fence(tx, run)
        row, now = run_row(tx, run.run_id), self._db.clock()
        if row.status is RunStatus.INITIALIZING:
            is_possible = started_at is not None and row.begun_at <= started_at <= now
            values = {"status": RunStatus.PROCESSING, "started_at": started_at if is_possible else now, **NOT_WAITING}
            tx.execute(RUN, {"of_run": run.run_id, **values})
            if row.tasks > 1:
                tx.execute(_update_of_queued_tasks(run.run_id).values(cause=DISPATCHER, cause_since=now))
            line = {"at": now, "event": "started", "message": "the main job has started"}
            log(tx, run, f"started:{row.end_number}", line)
        return run_record(tx, run.run_id)

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

    @transaction
    def close(self, tx: Connection, run: RunRef, status: RunStatus, reason: str) -> RunRecord:
        """Write the run's end. A run that is over keeps its first end. Raise Conflict while a task is alive."""
        fence(tx, run)
        row = run_row(tx, run.run_id)
        if not row.status.is_over:
            _refuse_while_a_task_is_alive(tx, run.run_id)
            now, number = self._db.clock(), row.end_number + 1
            values = {"status": status, "reason": reason, "finished_at": now, "end_number": number, **ENDING}
            values |= _account(tx, run.run_id, status, reason)
            tx.execute(RUN, {"of_run": run.run_id, **values})
            if row.flow_manager is not None:
                tell_end(tx, row, values)
            log(tx, run, f"ended:{number}", {"at": now, "event": "ended", "message": in_a_sentence(status, reason)})
        return run_record(tx, run.run_id)

    @reading
    def find(self, connection: Connection, workflow_id: str, first_execution_run_id: str) -> RunRecord | None:
        return run_of_execution(connection, workflow_id, first_execution_run_id)

    @transaction
    def _insert(self, tx: Connection, new: NewRun) -> RunRecord:
        now = self._db.clock()
        _refuse_second_run_of_attempt(tx, new)
        _refuse_run_of_ended_attempt(tx, new)
        _refuse_while_another_run_is_open(tx, new)
        values = _values_of_new_run(tx, new)
        inserted = tx.execute(insert(histories), {"created_at": now, "begun_at": now, **values})
        run_id = inserted.lastrowid
        run = RunRef(run_id=run_id, run_uid=values["run_uid"], epoch=FIRST_EPOCH)
        common = {"history_id": run_id, "queued_at": now, **NEW_TASK}
        if new.request.labels:
            labels = [{"history_id": run_id, "label": label} for label in new.request.labels]
            tx.execute(insert(history_labels), labels)
        if new.request.tags:
            tags = [{"history_id": run_id, "tag": tag} for tag in dict.fromkeys(new.request.tags)]
            tx.execute(insert(run_tags), tags)
        for numbers in pages(range(new.tasks)):
            rows = [{"task": number, **common, **_first_cause(number, now)} for number in numbers]
            tx.execute(insert(task_histories), rows)
        message = f"{new.request.trigger} run of {new.request.crawler}, {counted(new.tasks, 'task')}"
        line = {"at": now, "event": "created", "message": message, "actor": new.request.requested_by}
        log(tx, run, "created", line, is_new=True)
        if values.get("flow_manager") is not None:
            tell_run(tx, values, run)
        return run_record(tx, run_id)


def _first_cause(task: int, now: datetime) -> dict[str, Any]:
    """Return why the new task waits: a child task waits for the main job, the main task for nothing."""
    if task == MAIN_TASK:
        return {"cause": None, "cause_since": None}
    return {"cause": MAIN_JOB, "cause_since": now}


def _update_of_queued_tasks(run_id: int) -> Update:
    row = task_histories.c
    return update(task_histories).where(row.history_id == run_id, row.status == TaskStatus.QUEUED)


def _refuse_while_another_run_is_open(connection: Connection, new: NewRun) -> None:
    """Raise BadInput while another run with this workflow id is open: a stop for one run would reach the other."""
    has_same_id = and_(histories.c.workflow_id == new.workflow_id, histories.c.status.in_(OPEN_STATUSES))
    is_another_run = histories.c.first_execution_run_id != new.first_execution_run_id
    run_id = connection.scalar(select(histories.c.id).where(has_same_id, is_another_run))
    if run_id is not None:
        _refuse_second_run_of_attempt(connection, new)  # the other run may have been committed since the first check
        raise BadInput(
            "workflow_id",
            f"{new.workflow_id} belongs to run {run_id}, which is not over: resume that, or use another id",
        )


def _refuse_second_run_of_attempt(connection: Connection, new: NewRun) -> None:
    """Raise Conflict if another execution has made the run for the attempt in a flow: an attempt has a single run."""
    flow = new.request.flow
    if flow is None:
        return
    attempt = {"flow_uid": flow.flow_uid, "flow_member": flow.member, "flow_attempt": flow.attempt}
    is_another_run = histories.c.first_execution_run_id != new.first_execution_run_id
    run_id = connection.scalar(select(histories.c.id).filter_by(**attempt).where(is_another_run))
    if run_id is not None:
        raise Conflict(f"attempt {flow.attempt} of {flow.path!r} in flow {flow.flow_id!r} has run {run_id} already")


def _refuse_run_of_ended_attempt(connection: Connection, new: NewRun) -> None:
    """Raise Conflict if the attempt of a graph has ended without a run: a terminated workflow's activity comes late.

    The lock keeps refusals off until the run is on record: a refusal leaves attempts with a run out.
    """
    flow = new.request.flow
    if flow is None or flow.manager is not None:
        return
    number = connection.scalar(FLOW, {"of_uid": flow.flow_uid})
    key = {"of_flow": number, "of_member": flow.member, "of_attempt": flow.attempt}
    if connection.scalar(ATTEMPT_LOCKED, key) is not None:
        raise Conflict(f"attempt {flow.attempt} of {flow.path!r} in flow {flow.flow_id!r} was refused before its run")


def _values_of_new_run(connection: Connection, new: NewRun) -> dict[str, Any]:
    installation_uid = connection.scalar(select(installation.c.uid))
    if installation_uid is None:
        raise NotReady("the database belongs to no installation: run `crawlctl db upgrade`")
    return {
        "run_uid": str(uuid4()),
        "installation": installation_uid,
        "cluster": new.request.cluster,
        "crawler": new.request.crawler,
        "trigger_kind": new.request.trigger,
        "requested_by": new.request.requested_by,
        "status": RunStatus.INITIALIZING,
        "intent": Intent.RUN,
        "tasks": new.tasks,
        "max_parallel": new.request.max_parallel or new.entry.max_parallel,
        "priority": new.request.priority or 0,
        "workflow_id": new.workflow_id,
        "first_execution_run_id": new.first_execution_run_id,
        "supervisor_workflow_id": new.workflow_id,
        "supervisor_run_id": new.first_execution_run_id,
        "epoch": FIRST_EPOCH,
        "request": new.request.model_dump_json(),
        "entry": new.entry.model_dump_json(),
        "nudge_sent": 0,
        "nudge_acknowledged": 0,
        "end_number": 0,
        **_attempt_in_flow(new.request.flow),
    }


def _attempt_in_flow(link: FlowLink | None) -> dict[str, Any]:
    """Return the values by which a flow finds the run of its attempt."""
    if link is None:
        return {}
    return {
        "flow_uid": link.flow_uid,
        "flow_member": link.member,
        "flow_attempt": link.attempt,
        "flow_manager": link.manager,
    }


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
