"""Creation of runs: a run's row, its labels and tags, and the rows of its tasks, once for a workflow execution."""

from datetime import datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, and_, bindparam, insert, select

from crawler_lifecycle.base.words import counted
from crawler_lifecycle.database.flow_schema import attempt_ends, flow_attempts, flows
from crawler_lifecycle.database.pages import pages
from crawler_lifecycle.database.schema import (
    LONGEST_WORKFLOW_ID,
    histories,
    history_labels,
    installation,
    run_tags,
    task_histories,
)
from crawler_lifecycle.database.transactions import OPEN_STATUSES, OnDatabase, log, reading, transaction
from crawler_lifecycle.errors import BadInput, Conflict, NotReady
from crawler_lifecycle.model.naming import MAIN_TASK
from crawler_lifecycle.model.reasons import MAIN_JOB
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.requests import FlowLink, RunParameters
from crawler_lifecycle.model.run_plan import RunRef
from crawler_lifecycle.model.states import Intent, RunStatus, TaskStatus
from crawler_lifecycle.runs.ports import NewRun
from crawler_lifecycle.runs.store.manager_runs import tell_run
from crawler_lifecycle.runs.store.reading import run_of_execution, run_record
from crawler_lifecycle.runs.store.tasks import NO_RETRIES_YET

FIRST_EPOCH = 1
PARAMETERS = RunParameters.model_fields.keys() & histories.c.keys()  # parameters with a column of the same name
FLOW = select(flows.c.id).where(flows.c.uid == bindparam("of_uid"))
ATTEMPT_LOCKED = (
    select(flow_attempts.c.attempt)
    .where(
        flow_attempts.c.flow == bindparam("of_flow"),
        flow_attempts.c.member == bindparam("of_member"),
        flow_attempts.c.attempt == bindparam("of_attempt"),
    )
    .with_for_update()
)
END = select(attempt_ends.c.kind).where(
    attempt_ends.c.flow == bindparam("of_flow"),
    attempt_ends.c.member == bindparam("of_member"),
    attempt_ends.c.attempt == bindparam("of_attempt"),
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


class RunCreation(OnDatabase):
    """The methods in `runs.ports.Runs` for a run's creation."""

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
            tell_run(tx, values, run, new.request.tags)
        return run_record(tx, run_id)


def _first_cause(task: int, now: datetime) -> dict[str, Any]:
    """Return why the new task waits: a child task waits for the main job, the main task for nothing."""
    if task == MAIN_TASK:
        return {"cause": None, "cause_since": None}
    return {"cause": MAIN_JOB, "cause_since": now}


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

    The lock keeps refusals off until the run is stored: a refusal leaves attempts with a run out.
    """
    flow = new.request.flow
    if flow is None or flow.manager is not None:
        return
    number = connection.scalar(FLOW, {"of_uid": flow.flow_uid})
    key = {"of_flow": number, "of_member": flow.member, "of_attempt": flow.attempt}
    connection.execute(ATTEMPT_LOCKED, key)
    if connection.scalar(END, key) is not None:
        raise Conflict(f"attempt {flow.attempt} of {flow.path!r} in flow {flow.flow_id!r} was refused before its run")


def _values_of_new_run(connection: Connection, new: NewRun) -> dict[str, Any]:
    installation_uid = connection.scalar(select(installation.c.uid))
    if installation_uid is None:
        raise NotReady("the database belongs to no installation: run `crawlctl db upgrade`")
    return {
        "run_uid": str(uuid4()),
        "installation": installation_uid,
        **{name: getattr(new.request, name) for name in PARAMETERS},
        "trigger_kind": new.request.trigger,
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
