"""Explanations of runs' ends, from the rows of the runs, their deciding tasks and their stops."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, Select, func, select

from crawler_lifecycle.adapters.sql.reading import log_record, record_of, task_counts, task_record
from crawler_lifecycle.adapters.sql.schema import histories, history_logs, task_histories
from crawler_lifecycle.contract.records import LogRecord, RunSummary, TaskRecord
from crawler_lifecycle.domain.explanation import FAILURES, STOPS, explanation
from crawler_lifecycle.domain.naming import MAIN_TASK

R = TypeVar("R", bound=RunSummary)
EVENTS = (*STOPS, "reopened")


def explained(connection: Connection, runs: Sequence[R]) -> list[R]:
    """Add explanations to the runs that are over, by five queries for any number of runs."""
    over = [run.run_id for run in runs if run.status.is_over]
    if not over:
        return list(runs)
    counts, tasks, log = task_counts(connection, over), _deciding_tasks(connection, over), _stops(connection, over)
    rows = connection.execute(select(histories).where(histories.c.id.in_(over)))
    reasons = {row.id: explanation(record_of(row, counts[row.id]), tasks[row.id], log[row.id]) for row in rows}
    return [run.model_copy(update={"explanation": reasons.get(run.run_id)}) for run in runs]


def _deciding_tasks(connection: Connection, run_ids: Sequence[int]) -> dict[int, list[TaskRecord]]:
    """Return the main task and the first task in every failed status, by run. A run may have thousands of tasks."""
    row = task_histories.c
    first = select(row.history_id, func.min(row.task).label("task")).where(row.history_id.in_(run_ids))
    firsts = first.where(row.status.in_(FAILURES)).group_by(row.history_id, row.status).subquery()
    same_task = (firsts.c.history_id == row.history_id) & (firsts.c.task == row.task)
    failed = select(task_histories).join(firsts, same_task & (row.task != MAIN_TASK))
    main = select(task_histories).where(row.history_id.in_(run_ids), row.task == MAIN_TASK)
    return _by_run(connection, [main, failed], task_record)


def _stops(connection: Connection, run_ids: Sequence[int]) -> dict[int, list[LogRecord]]:
    line = history_logs.c
    lines = select(history_logs).where(line.history_id.in_(run_ids), line.event.in_(EVENTS)).order_by(line.id)
    return _by_run(connection, [lines], log_record)


def _by_run(connection: Connection, queries: Sequence[Select[Any]], record: Any) -> dict[int, list[Any]]:
    records: dict[int, list[Any]] = defaultdict(list)
    for query in queries:
        for row in connection.execute(query):
            records[row.history_id].append(record(row))
    return records
