"""Pages of a run's tasks for people's lists, in the orders of `contract.task_order`."""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, case, func, literal, select

from crawler_lifecycle.adapters.sql.schema import task_histories
from crawler_lifecycle.adapters.sql.types import TimeBetween, UtcDateTime
from crawler_lifecycle.contract.states import TaskStatus
from crawler_lifecycle.contract.task_order import TaskOrder

task = task_histories.c
PLACES = {status: place for place, status in enumerate(TaskStatus)}  # of the statuses in a task's life


def page_of_tasks(
    run_id: int, first: int, limit: int, status: TaskStatus | None, order: TaskOrder, now: datetime
) -> Select[Any]:
    """Return the statement for a page. By number `first` is a task's number, in other orders a place from 0 on."""
    query = select(task_histories).where(task.history_id == run_id).limit(limit)
    if status is not None:
        query = query.where(task.status == status)
    if order is TaskOrder.TASK:
        return query.where(task.task >= first).order_by(task.task)
    value = _value(order, now)
    directed = value.desc() if order.is_down else value.asc()
    return query.order_by(value.is_(None), directed, task.task).offset(first)


def _value(order: TaskOrder, now: datetime) -> ColumnElement[Any]:
    if order.key == TaskOrder.STATUS:
        return case(PLACES, value=task.status)
    if order.key == TaskOrder.DURATION:
        until = func.coalesce(task.finished_at, literal(now, UtcDateTime()))
        return TimeBetween(task.started_at, until)
    return task.exit_code if order.key == TaskOrder.EXIT_CODE else task.task
