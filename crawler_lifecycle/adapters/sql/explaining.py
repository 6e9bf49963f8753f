"""Explanations of runs that are over, from their rows."""

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
    """Return the runs, those that are over with their explanation: five queries for any number of runs."""
    over = [run.run_id for run in runs if run.status.is_over]
    if not over:
        return list(runs)
    counts, tasks, log = task_counts(connection, over), _deciding_tasks(connection, over), _stops(connection, over)
    rows = connection.execute(select(histories).where(histories.c.id.in_(over)))
    reasons = {row.id: explanation(record_of(row, counts[row.id]), tasks[row.id], log[row.id]) for row in rows}
    return [run.model_copy(update={"explanation": reasons.get(run.run_id)}) for run in runs]


def _deciding_tasks(connection: Connection, run_ids: Sequence[int]) -> dict[int, list[TaskRecord]]:
    """The main task of each run, and its first task in each status of failure. A run may have thousands of tasks."""
    of = task_histories.c
    first = select(of.history_id, func.min(of.task).label("task")).where(of.history_id.in_(run_ids))
    firsts = first.where(of.status.in_(FAILURES)).group_by(of.history_id, of.status).subquery()
    failed = select(task_histories).join(
        firsts, (firsts.c.history_id == of.history_id) & (firsts.c.task == of.task) & (of.task != MAIN_TASK)
    )
    main = select(task_histories).where(of.history_id.in_(run_ids), of.task == MAIN_TASK)
    return _by_run(connection, [main, failed], task_record)


def _stops(connection: Connection, run_ids: Sequence[int]) -> dict[int, list[LogRecord]]:
    of = history_logs.c
    lines = select(history_logs).where(of.history_id.in_(run_ids), of.event.in_(EVENTS)).order_by(of.id)
    return _by_run(connection, [lines], log_record)


def _by_run(connection: Connection, queries: Sequence[Select[Any]], record: Any) -> dict[int, list[Any]]:
    records: dict[int, list[Any]] = defaultdict(list)
    for query in queries:
        for row in connection.execute(query):
            records[row.history_id].append(record(row))
    return records
