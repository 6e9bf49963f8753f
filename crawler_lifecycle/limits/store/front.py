"""The front of the line: a pass of the dispatcher reads the first runs of a line with thousands of runs.

Runs with the same priority and limits, which all need one place or all need two, are a part of the line. A pass serves
a part by RunID, and once a run is held, all later runs of its part are held. So a pass for `most` tasks needs the first
`most` + 1 runs of each part. A pass reads all runs with limited labels, because no part has runs with limited labels.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, and_, bindparam, case, exists, func, not_, or_, select, union

from crawler_lifecycle.database.schema import histories, task_histories
from crawler_lifecycle.limits.rules.open_runs import OpenRun
from crawler_lifecycle.limits.rules.planning import AdmissionPlan
from crawler_lifecycle.limits.rules.rooms import Hold
from crawler_lifecycle.limits.store.admission import HAS_LIMITED_LABEL, IS_OURS, NOW, Situation, at, has_no_pause
from crawler_lifecycle.model.limits import CRAWLER, LABEL
from crawler_lifecycle.model.naming import MAIN_TASK
from crawler_lifecycle.model.reasons import ADMISSION
from crawler_lifecycle.model.states import Intent, RunStatus, TaskStatus

runs, tasks = histories.c, task_histories.c
_MAIN = and_(tasks.history_id == runs.id, tasks.task == MAIN_TASK, tasks.status == TaskStatus.QUEUED)
_CHILD = and_(tasks.history_id == runs.id, tasks.task != MAIN_TASK, tasks.status == TaskStatus.QUEUED)
_IS_BEGUN = runs.status == RunStatus.PROCESSING
_IS_HELD = runs.held_by > ""  # SQLite uses no index for "is not null"
# queued runs with a task to deploy and without a limited label
_IS_IN_A_PART = and_(
    *(_IS_HELD, IS_OURS, runs.intent == Intent.RUN, not_(HAS_LIMITED_LABEL)),
    # as an expression, the status has no index: with the index, all open runs would be read, not only the held ones
    *(func.coalesce(runs.status, "") == RunStatus.INITIALIZING, runs.admitted_at.is_(None)),
    exists().where(_MAIN, has_no_pause(NOW)).correlate(histories),
)
# the run's crawler if the crawler has limits, and an empty text otherwise
_limited_crawler: ColumnElement[str] = case(
    (runs.crawler.in_(bindparam("crawlers", expanding=True)), runs.crawler), else_=""
)
# 1 for runs with a queued child task and without a limit of a single task, 0 for other runs
_needs_two_places: ColumnElement[int] = case(
    (and_(func.coalesce(runs.max_parallel, 0) != 1, exists().where(_CHILD).correlate(histories)), 1), else_=0
)
_PLACE = func.row_number().over(partition_by=(runs.priority, _limited_crawler, _needs_two_places), order_by=runs.id)
_LINE = select(runs.id, _PLACE.label("place")).where(_IS_IN_A_PART).subquery()
# from waiting tasks to their runs: otherwise MySQL may read all open runs
_WAITING = select(tasks.history_id).prefix_with("STRAIGHT_JOIN", dialect="mysql")
RUNS_OF_A_PASS = union(
    select(_LINE.c.id).where(_LINE.c.place <= bindparam("of_front")),
    select(runs.id).where(_IS_HELD, or_(_IS_BEGUN, HAS_LIMITED_LABEL)),
    _WAITING.join_from(task_histories, histories, tasks.history_id == runs.id).where(
        _IS_BEGUN, tasks.status == TaskStatus.QUEUED
    ),
)


def runs_of_a_pass(connection: Connection, scopes: Collection[str], most: int, now: datetime) -> set[int]:
    """Return the RunIDs for a pass with `most` tasks. `scopes`: all scopes with limits.

    The pass reads the front, the runs in the line with limited labels, and begun runs with waiting tasks. Other begun
    runs are not read: the sums have their use.
    """
    return set(connection.scalars(RUNS_OF_A_PASS, {"of_front": most + 1, "crawlers": _crawlers(scopes), **at(now)}))


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
            is_of_part = and_(runs.priority == priority, _limited_crawler == crawler)
            is_behind = and_(is_of_part, _needs_two_places == int(needs_two), runs.id > front[-1])
            query = select(runs.id).where(_IS_IN_A_PART, is_behind, not_(_is_on_record(hold)))
            yield hold, list(connection.scalars(query, {"crawlers": _crawlers(present.limits), **at(now)}))


def _is_of_a_part(run: OpenRun, status: RunStatus) -> bool:
    """Return the same for a run as `_IS_IN_A_PART` for its row."""
    waits = run.is_in_line and run.is_deployable and run.main_is_ready and status is RunStatus.INITIALIZING
    return waits and not any(scope.startswith(LABEL) for scope in run.scopes)


def _crawlers(scopes: Collection[str]) -> list[str]:
    return [scope.removeprefix(CRAWLER) for scope in scopes if scope.startswith(CRAWLER)]


def _is_on_record(hold: Hold) -> ColumnElement[bool]:
    """Return the condition for rows with the hold.

    The words about a limit change as places come and go. The whole line keeps its words.
    """
    is_named = and_(runs.held_by == hold.scope, func.coalesce(runs.waiting_cause, "") == hold.cause)
    return is_named if hold.cause == ADMISSION else and_(is_named, runs.waiting_message == hold.message)
