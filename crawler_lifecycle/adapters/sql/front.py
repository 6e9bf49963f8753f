"""The front of the line: a pass of the dispatcher reads the first runs of a line with thousands of runs.

Runs with the same priority and limits, which all need one place or all need two, are a part of the line. A pass serves
a part by RunID, and once a run is held, all later runs of its part are held. So a pass for `most` tasks needs the first
`most` + 1 runs of each part. A pass reads all runs with limited labels, because no part has runs with limited labels.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, and_, case, exists, func, not_, or_, select

from crawler_lifecycle.adapters.sql.admission import (
    Situation,
    has_limited_label,
    has_no_pause,
    has_places,
    is_deployed_here,
)
from crawler_lifecycle.adapters.sql.schema import histories, task_histories
from crawler_lifecycle.contract.limits import CRAWLER, LABEL
from crawler_lifecycle.contract.states import Intent, RunStatus, TaskStatus
from crawler_lifecycle.domain.admission import AdmissionPlan, Hold, OpenRun
from crawler_lifecycle.domain.naming import MAIN_TASK
from crawler_lifecycle.domain.reasons import ADMISSION

runs, tasks = histories.c, task_histories.c


def is_read_by_a_pass(scopes: Collection[str], most: int, now: datetime) -> ColumnElement[bool]:
    """Return the condition for the runs of a pass for `most` tasks. `scopes`: all scopes with limits."""
    part = (runs.priority, _limited_crawler(scopes), _needs_two_places())
    place = func.row_number().over(partition_by=part, order_by=runs.id)
    line = select(runs.id, place.label("place")).where(_is_in_a_part(now)).subquery()
    is_in_front = runs.id.in_(select(line.c.id).where(line.c.place <= most + 1))
    is_labelled = and_(runs.held_by.is_not(None), has_limited_label())
    return or_(has_places(), runs.status == RunStatus.PROCESSING, is_labelled, is_in_front)


def holds_behind_front(
    connection: Connection, present: Situation, new: AdmissionPlan, most: int, now: datetime
) -> Iterator[tuple[Hold, list[int]]]:
    """Yield each hold after the front, with the RunIDs of the rows with another hold."""
    parts = defaultdict[tuple[int, tuple[str, ...], bool], list[int]](list)
    for run in present.runs:
        if _is_of_a_part(run, present.rows[run.run_id].status):
            parts[run.priority, run.scopes, run.needs_two_places].append(run.run_id)
    for (priority, scopes, needs_two), front in parts.items():
        hold = new.holds.get(front[-1])
        if hold and len(front) > most:
            crawler = "".join(scope.removeprefix(CRAWLER) for scope in scopes if scope.startswith(CRAWLER))
            is_of_part = and_(runs.priority == priority, _limited_crawler(present.limits) == crawler)
            is_behind = and_(is_of_part, _needs_two_places() == int(needs_two), runs.id > front[-1])
            query = select(runs.id).where(_is_in_a_part(now), is_behind, not_(_is_on_record(hold)))
            yield hold, list(connection.scalars(query))


def _is_of_a_part(run: OpenRun, status: RunStatus) -> bool:
    """Return the same for a run as `_is_in_a_part` for its row."""
    waits = run.is_in_line and run.is_deployable and run.main_is_ready and status is RunStatus.INITIALIZING
    return waits and not any(scope.startswith(LABEL) for scope in run.scopes)


def _is_in_a_part(now: datetime) -> ColumnElement[bool]:
    """Return the condition for queued runs with a task to deploy and without a limited label."""
    main = and_(tasks.history_id == runs.id, tasks.task == MAIN_TASK, tasks.status == TaskStatus.QUEUED)
    has_main = exists().where(main, has_no_pause(now)).correlate(histories)
    has_no_permit = and_(runs.status == RunStatus.INITIALIZING, runs.admitted_at.is_(None))
    return and_(is_deployed_here(now), has_no_permit, runs.intent == Intent.RUN, has_main, not_(has_limited_label()))


def _limited_crawler(scopes: Collection[str]) -> ColumnElement[str]:
    """Return the run's crawler if the crawler has limits, and an empty text otherwise."""
    names = [scope.removeprefix(CRAWLER) for scope in scopes if scope.startswith(CRAWLER)]
    return case((runs.crawler.in_(names), runs.crawler), else_="")


def _needs_two_places() -> ColumnElement[int]:
    """Return 1 for runs with a queued child task and without a limit of a single task, 0 for other runs."""
    child = and_(tasks.history_id == runs.id, tasks.task != MAIN_TASK, tasks.status == TaskStatus.QUEUED)
    has_child_to_come = and_(func.coalesce(runs.max_parallel, 0) != 1, exists().where(child).correlate(histories))
    return case((has_child_to_come, 1), else_=0)


def _is_on_record(hold: Hold) -> ColumnElement[bool]:
    """Return the condition for rows with the hold.

    The words about a limit change as places come and go. The whole line keeps its words.
    """
    is_named = and_(runs.held_by == hold.scope, func.coalesce(runs.waiting_cause, "") == hold.cause)
    return is_named if hold.cause == ADMISSION else and_(is_named, runs.waiting_message == hold.message)
