"""The front of the line: a pass of the dispatcher reads the first runs of a line with thousands of runs.

Runs with the same priority and the same limits are a part of the line. A pass serves a part by RunID, and once a run is
held, all later runs of its part are held. So a pass for `most` tasks needs the first `most` + 1 runs of each part. A
pass reads all runs with limited labels, because no part has runs with limited labels.
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
from crawler_lifecycle.domain.admission import Hold, OpenRun, Plan
from crawler_lifecycle.domain.naming import MAIN_TASK
from crawler_lifecycle.domain.reasons import ADMISSION

runs, tasks = histories.c, task_histories.c


def is_read_by_a_pass(scopes: Collection[str], most: int, now: datetime) -> ColumnElement[bool]:
    """Return the condition for the runs of a pass for `most` tasks. `scopes`: all scopes with limits."""
    place = func.row_number().over(partition_by=(runs.priority, _limited_crawler(scopes)), order_by=runs.id)
    line = select(runs.id, place.label("place")).where(_is_in_a_part(now)).subquery()
    is_in_front = runs.id.in_(select(line.c.id).where(line.c.place <= most + 1))
    is_labelled = and_(runs.held_by.is_not(None), has_limited_label())
    return or_(has_places(), runs.status == RunStatus.PROCESSING, is_labelled, is_in_front)


def holds_behind_front(
    connection: Connection, present: Situation, new: Plan, most: int, now: datetime
) -> Iterator[tuple[Hold, list[int]]]:
    """Yield each hold behind the front, with the RunIDs of the rows with another hold."""
    parts = defaultdict[tuple[int, tuple[str, ...]], list[OpenRun]](list)
    for run in present.runs:
        if run.is_in_line and not any(scope.startswith(LABEL) for scope in run.scopes):
            parts[run.priority, run.scopes].append(run)
    for (priority, scopes), front in parts.items():
        last = front[-1].run_id
        hold = new.holds.get(last)
        if hold and len(front) > most:
            crawler = "".join(scope.removeprefix(CRAWLER) for scope in scopes if scope.startswith(CRAWLER))
            is_behind = and_(runs.priority == priority, _limited_crawler(present.limits) == crawler, runs.id > last)
            query = select(runs.id).where(_is_in_a_part(now), is_behind, not_(_is_on_record(hold)))
            yield hold, list(connection.scalars(query))


def _is_in_a_part(now: datetime) -> ColumnElement[bool]:
    """Return the condition for runs in line with a task to deploy and without a limited label."""
    main = and_(tasks.history_id == runs.id, tasks.task == MAIN_TASK, tasks.status == TaskStatus.QUEUED)
    has_main = exists().where(main, has_no_pause(now)).correlate(histories)
    has_no_permit = and_(runs.status == RunStatus.INITIALIZING, runs.admitted_at.is_(None))
    return and_(is_deployed_here(now), has_no_permit, runs.intent == Intent.RUN, has_main, not_(has_limited_label()))


def _limited_crawler(scopes: Collection[str]) -> ColumnElement[str]:
    """Return the run's crawler if the crawler has limits, and an empty text otherwise."""
    names = [scope.removeprefix(CRAWLER) for scope in scopes if scope.startswith(CRAWLER)]
    return case((runs.crawler.in_(names), runs.crawler), else_="")


def _is_on_record(hold: Hold) -> ColumnElement[bool]:
    """Return the condition for rows with the hold.

    The words about a limit change as places come and go. The whole line keeps its words.
    """
    is_named = and_(runs.held_by == hold.scope, func.coalesce(runs.waiting_cause, "") == hold.cause)
    return is_named if hold.cause == ADMISSION else and_(is_named, runs.waiting_message == hold.message)
