"""Translation of rows into the contract's models, with explanations of how runs ended.

An explanation needs the run's row, the tasks responsible for the end, and the lines about stops in the timeline.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, Select, bindparam, func, select, true

from crawler_lifecycle.database.pages import pages
from crawler_lifecycle.database.schema import (
    audit_findings,
    histories,
    history_logs,
    installation,
    task_attempts,
    task_histories,
)
from crawler_lifecycle.database.transactions import missing_run
from crawler_lifecycle.errors import Conflict
from crawler_lifecycle.model.audits import FindingRecord
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.naming import MAIN_TASK
from crawler_lifecycle.model.reasons import ALL_SUCCEEDED
from crawler_lifecycle.model.records import (
    ExportRecord,
    FlowPlace,
    FormerAttempt,
    LogRecord,
    RunRecord,
    RunSummary,
    TaskRecord,
)
from crawler_lifecycle.model.requests import FlowLink, KeptRequest
from crawler_lifecycle.model.states import TaskStatus
from crawler_lifecycle.runs.rules.outcome import FAILURES, STOPS, explanation

RunModel = TypeVar("RunModel", bound=RunSummary)
TaskCounts = dict[TaskStatus, int]
EXPLAINING_EVENTS = (*STOPS, "reopened")  # events of timeline lines
# model fields without a column for the same name and value
TRANSLATED = {"run_id", "trigger", "tasks", "request", "entry", "explanation", "flow", "tags"}
SUMMARY_FIELDS = RunSummary.model_fields.keys() - TRANSLATED
RECORD_FIELDS = RunRecord.model_fields.keys() - TRANSLATED
SUMMARY_COLUMNS = [
    histories.c.id,
    histories.c.trigger_kind,
    func.json_extract(histories.c.request, "$.flow").label("flow"),  # a whole request is long for lists
    func.json_extract(histories.c.request, "$.tags").label("tags"),
    *(histories.c[name] for name in sorted(SUMMARY_FIELDS)),
]


def _run_and_counts() -> Select[Any]:
    """Return the statement for a run's row, repeated for every status of its tasks, with the number of these tasks."""
    task = task_histories.c
    of_run = select(task.status.label("task_status"), func.count().label("task_count"))
    counts = of_run.where(task.history_id == RUN_ID).group_by(task.status).subquery()
    return select(histories, counts).join_from(histories, counts, true(), isouter=True).where(histories.c.id == RUN_ID)


# built once: to build a statement takes longer than its execution
RUN_ID = bindparam("run_id", type_=histories.c.id.type)
RUN_ROW = select(histories).where(histories.c.id == RUN_ID)
RUN_AND_COUNTS = _run_and_counts()


def run_row(connection: Connection, run_id: int) -> Row[Any]:
    row = connection.execute(RUN_ROW, {"run_id": run_id}).one_or_none()
    if row is None:
        raise missing_run(connection, run_id)
    return row


def own_row(connection: Connection, run_id: int) -> Row[Any]:
    """Return the run's row to a command that changes jobs. Raise Conflict if another installation began the run.

    A restored or shared database has rows from other installations, and their jobs must not be touched.
    """
    row = run_row(connection, run_id)
    own_uid = connection.scalar(select(installation.c.uid))
    if row.installation != own_uid:
        raise Conflict(
            f"run {run_id} belongs to installation {row.installation}, and this database to {own_uid}: "
            "only the installation that began a run stops or resumes it"
        )
    return row


def run_record(connection: Connection, run_id: int) -> RunRecord:
    rows = connection.execute(RUN_AND_COUNTS, {"run_id": run_id}).all()
    if not rows:
        raise missing_run(connection, run_id)
    return run_record_from(rows[0], {row.task_status: row.task_count for row in rows if row.task_status is not None})


def run_record_from(row: Row[Any], tasks: TaskCounts) -> RunRecord:
    request = KeptRequest.model_validate_json(row.request)
    return RunRecord(
        run_id=row.id,
        trigger=row.trigger_kind,
        tasks=tasks,
        flow=_place_in_flow(request.flow),
        tags=request.tags,
        request=request,
        entry=Crawler.model_validate_json(row.entry),
        **_fields(row, RECORD_FIELDS),
    )


def run_of_execution(connection: Connection, workflow_id: str, first_execution_run_id: str) -> RunRecord | None:
    key = {"workflow_id": workflow_id, "first_execution_run_id": first_execution_run_id}
    run_id = connection.scalar(select(histories.c.id).filter_by(**key))
    return None if run_id is None else run_record(connection, run_id)


def run_summary(row: Row[Any], tasks: TaskCounts) -> RunSummary:
    link = json.loads(row.flow or "null")
    return RunSummary(
        run_id=row.id,
        trigger=row.trigger_kind,
        tasks=tasks,
        flow=_place_in_flow(None if link is None else FlowLink.model_validate(link)),
        tags=json.loads(row.tags or "[]"),
        **_fields(row, SUMMARY_FIELDS),
    )


def _place_in_flow(link: FlowLink | None) -> FlowPlace | None:
    return None if link is None else FlowPlace(id=link.flow_id, path=link.path, attempt=link.attempt)


def task_counts(connection: Connection, run_ids: Iterable[int]) -> dict[int, TaskCounts]:
    """Count the tasks by run and status. A status without tasks is left out; a run without tasks has an empty dict."""
    row = task_histories.c
    query = select(row.history_id, row.status, func.count()).where(row.history_id.in_(run_ids))
    counts: dict[int, TaskCounts] = defaultdict(dict)
    for run_id, status, count in connection.execute(query.group_by(row.history_id, row.status)):
        counts[run_id][status] = count
    return counts


def task_record(row: Row[Any], former_attempts: Sequence[FormerAttempt] = ()) -> TaskRecord:
    translated = {
        "events": json.loads(row.events),
        "crawl_result": row.facts.result if row.facts else None,
        "former_attempts": list(former_attempts),
    }
    return TaskRecord(**translated, **_fields(row, TaskRecord.model_fields.keys() - translated.keys()))


def _former_attempt(row: Row[Any]) -> FormerAttempt:
    fields = _fields(row, FormerAttempt.model_fields.keys() - {"events"})
    return FormerAttempt(events=json.loads(row.events), **fields)


def task_records(connection: Connection, query: Select[Any]) -> list[TaskRecord]:
    """Return a run's tasks, with all previous attempts."""
    rows = connection.execute(query).all()
    former = defaultdict[int, list[FormerAttempt]](list)
    for numbers in pages([row.task for row in rows if row.attempt > 1]):
        column = task_attempts.c
        is_retried = (column.history_id == rows[0].history_id, column.task.in_(numbers))
        for row in connection.execute(select(task_attempts).where(*is_retried).order_by(column.task, column.attempt)):
            former[row.task].append(_former_attempt(row))
    return [task_record(row, former[row.task]) for row in rows]


def log_record(row: Row[Any]) -> LogRecord:
    return LogRecord(**_fields(row, LogRecord.model_fields))


def export_record(row: Row[Any]) -> ExportRecord:
    end = json.loads(row.event)["end"]
    return ExportRecord(end=end, **_fields(row, ExportRecord.model_fields.keys() - {"end"}))


def finding_record(row: Row[Any]) -> FindingRecord:
    return FindingRecord(run_id=row.history_id, **_fields(row, FindingRecord.model_fields.keys() - {"run_id"}))


def findings_of(connection: Connection, run_uid: str) -> list[FindingRecord]:
    """Return the run's findings, open and closed, oldest first."""
    query = select(audit_findings).where(audit_findings.c.run_uid == run_uid).order_by(audit_findings.c.id)
    return [finding_record(row) for row in connection.execute(query)]


def _fields(row: Row[Any], names: Iterable[str]) -> dict[str, Any]:
    values = row._mapping
    return {name: values[name] for name in names}


def with_explanations(connection: Connection, runs: Sequence[RunModel]) -> list[RunModel]:
    """Return the runs in the same order, with explanations for the runs that are over.

    Five queries serve any number of runs.
    """
    over_ids = [run.run_id for run in runs if run.status.is_over and run.reason != ALL_SUCCEEDED]
    if not over_ids:
        return list(runs)
    counts = {run.run_id: run.tasks for run in runs}
    tasks = _deciding_tasks(connection, over_ids)
    lines = _stops_and_reopenings(connection, over_ids)
    explanations = {
        row.id: explanation(run_record_from(row, counts[row.id]), tasks[row.id], lines[row.id])
        for row in connection.execute(select(histories).where(histories.c.id.in_(over_ids)))
    }
    return [run.model_copy(update={"explanation": explanations.get(run.run_id)}) for run in runs]


def _deciding_tasks(connection: Connection, run_ids: Sequence[int]) -> dict[int, list[TaskRecord]]:
    """Return, by run, the main task and the first task in every failed status: a run may have thousands of tasks."""
    row = task_histories.c
    first_number = select(row.history_id, func.min(row.task).label("task")).where(row.history_id.in_(run_ids))
    first_failed = first_number.where(row.status.in_(FAILURES)).group_by(row.history_id, row.status).subquery()
    is_first = (first_failed.c.history_id == row.history_id) & (first_failed.c.task == row.task)
    failed_tasks = select(task_histories).join(first_failed, is_first & (row.task != MAIN_TASK))
    main_tasks = select(task_histories).where(row.history_id.in_(run_ids), row.task == MAIN_TASK)
    records = _records_by_run(connection, [main_tasks, failed_tasks], task_record)
    for run_id, former in _former_attempts_of_main_tasks(connection, run_ids).items():
        records[run_id][0] = records[run_id][0].model_copy(update={"former_attempts": former})
    return records


def _former_attempts_of_main_tasks(connection: Connection, run_ids: Sequence[int]) -> dict[int, list[FormerAttempt]]:
    """Return, by run, the main task's previous attempts, oldest first."""
    attempt = task_attempts.c
    of_main_tasks = select(task_attempts).where(attempt.history_id.in_(run_ids), attempt.task == MAIN_TASK)
    return _records_by_run(connection, [of_main_tasks.order_by(attempt.attempt)], _former_attempt)


def _stops_and_reopenings(connection: Connection, run_ids: Sequence[int]) -> dict[int, list[LogRecord]]:
    line = history_logs.c
    lines = (
        select(history_logs).where(line.history_id.in_(run_ids), line.event.in_(EXPLAINING_EVENTS)).order_by(line.id)
    )
    return _records_by_run(connection, [lines], log_record)


def _records_by_run(
    connection: Connection, queries: Sequence[Select[Any]], to_record: Callable[[Row[Any]], Any]
) -> dict[int, list[Any]]:
    records: dict[int, list[Any]] = defaultdict(list)
    for query in queries:
        for row in connection.execute(query):
            records[row.history_id].append(to_record(row))
    return records
