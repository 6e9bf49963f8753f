"""Items of steps for a crawl's tasks: the run in which the task succeeded."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, bindparam, select

from crawler_lifecycle.database.schema import histories, task_histories
from crawler_lifecycle.flows.model.definition import MemberDefinition
from crawler_lifecycle.flows.model.work import CallForm, StepWork
from crawler_lifecycle.flows.ports.claims import ClaimedStep
from crawler_lifecycle.flows.rules.requesting import task_item, task_of
from crawler_lifecycle.flows.rules.rows import MemberRow, Target
from crawler_lifecycle.model.states import TaskStatus

runs, tasks = histories.c, task_histories.c
RUNS_OF_TASKS = (
    select(runs.flow_member, tasks.task, tasks.status, runs.id, runs.run_uid)
    .join_from(histories, task_histories, tasks.history_id == runs.id)
    .where(
        runs.flow_uid == bindparam("of_uid"),
        runs.flow_member.in_(bindparam("crawls", expanding=True)),
        tasks.task.in_(bindparam("tasks", expanding=True)),
    )
    .order_by(runs.flow_attempt)
)


def with_items(
    connection: Connection, flow_uid: str, steps: Sequence[ClaimedStep], rows: dict[int, MemberRow]
) -> list[ClaimedStep]:
    """Return the steps. The steps for tasks have their tasks as items."""
    by_number = {
        step.start.number: target
        for step in steps
        if _is_for_task(step.definition) and (target := task_of(rows[step.start.number])) is not None
    }
    if not by_number:
        return list(steps)
    key = {
        "of_uid": flow_uid,
        "crawls": sorted({target.number for target in by_number.values()}),
        "tasks": sorted({target.task or 0 for target in by_number.values()}),
    }
    last: dict[tuple[int, int | None], Any] = {}
    for run in connection.execute(RUNS_OF_TASKS, key):
        known = last.get((run.flow_member, run.task))
        if known is None or run.status is TaskStatus.SUCCEEDED or known.status is not TaskStatus.SUCCEEDED:
            last[run.flow_member, run.task] = run
    return [_with_item(step, by_number, last) for step in steps]


def _is_for_task(definition: MemberDefinition) -> bool:
    work = definition.work
    return isinstance(work, StepWork) and work.form is CallForm.ITEM and isinstance(work.arguments, dict)


def _with_item(
    step: ClaimedStep, targets: Mapping[int, Target], runs_of_tasks: Mapping[tuple[int, int | None], Any]
) -> ClaimedStep:
    target = targets.get(step.start.number)
    run = None if target is None else runs_of_tasks.get((target.number, target.task))
    if run is None:  # no step for a task, or a failed crawl without runs whose failure does not count
        return step
    return replace(step, arguments=task_item(step.arguments, run.id, run.run_uid))
