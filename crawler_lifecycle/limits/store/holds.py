"""Permits and holds on runs' rows, and the front of the line. The caller holds the lock of `lock_admission`.

A line may have thousands of runs, and a pass of the dispatcher reads only the first. Runs with the same priority and
limits, which all need one place or all need two, are a part of the line. A pass serves a part by RunID, and once a run
is held, all later runs of its part are held. So a pass for `most` tasks needs the first `most` + 1 runs of each part. A
pass reads all runs with limited labels, because no part has runs with limited labels.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, bindparam, case, exists, func, not_, or_, select, union, update

from crawler_lifecycle.database.pages import pages
from crawler_lifecycle.database.schema import OWN_INSTALLATION, histories, task_histories
from crawler_lifecycle.database.transactions import OPEN_STATUSES, Assignment
from crawler_lifecycle.limits.rules import AdmissionPlan, Hold, OpenRun, Rooms, Use, obstacle_in_turn, pause_in
from crawler_lifecycle.limits.store.admission import (
    HAS_LIMITED_LABEL,
    IS_OURS,
    NOW,
    Situation,
    at,
    has_no_pause,
    situation,
)
from crawler_lifecycle.limits.store.uses import MOST_COUNTED, append_change, uses_and_waiting
from crawler_lifecycle.model.limits import CRAWLER, INSTALLATION, LABEL, ScopeLimits
from crawler_lifecycle.model.naming import MAIN_TASK
from crawler_lifecycle.model.reasons import ADMISSION, PAUSED
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
_IN_LINE = (
    select(runs.id, runs.held_by)
    .with_hint(histories, "FORCE INDEX (PRIMARY)", "mysql")
    .where(runs.id.in_(bindparam("run_ids", expanding=True)), runs.admitted_at.is_(None), runs.intent == Intent.RUN)
    .where(runs.status.in_(OPEN_STATUSES), runs.installation == OWN_INSTALLATION)
    .with_for_update()
)
MOST_LOCKED = 500  # rows; for a list with a thousand numbers, MariaDB makes a temporary table, and locks every run
NO_WAIT = dict.fromkeys(("waiting_cause", "waiting_since", "waiting_message"))


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


def permit(now: datetime) -> dict[str, Any]:
    """Return the values of a permit. It ends with its run, or when a pause finds the run without a job."""
    return {"admitted_at": now, **NO_WAIT}


def end_wait(connection: Connection, run_id: int) -> None:
    """Write that the pause which held the run is over."""
    is_paused = runs.waiting_cause == PAUSED
    connection.execute(update(histories).where(runs.id == run_id, is_paused).values(NO_WAIT))


def take_permit_back(connection: Connection, run_id: int, hold: Hold, now: datetime) -> None:
    """Write the run back into the line. No job of the run exists, and none may be made."""
    write_hold(connection, [run_id], hold, now, admitted_at=None)


def obstacle_for(connection: Connection, run: OpenRun, limits: dict[str, ScopeLimits], now: datetime) -> Hold | None:
    """Return what holds the run's main task: a pause, and before the permit also a limit or another run in the line.

    The line may have thousands of runs, and each run asks. Only if the limits have room, and too little for all tasks
    that wait, the front of the line is read, as in a pass with a task for each free place.
    """
    if run.is_admitted:
        return pause_in(run.scopes, limits)
    used, waiting = uses_and_waiting(connection, limits)
    rooms = Rooms(limits, used)
    if hold := rooms.obstacle(run):
        return hold
    if waiting < MOST_COUNTED and rooms.has_room_beside(run, waiting):
        return None
    free = max(0, (limits[INSTALLATION].tasks or 0) - rooms.used[INSTALLATION].tasks)
    others = situation(connection, limits, now, runs_of_a_pass(connection, limits, free, now) - {run.run_id})
    return obstacle_in_turn(run, [run, *others.runs], limits, used)


def write_hold(connection: Connection, run_ids: Collection[int], hold: Hold, now: datetime, **more: Any) -> None:
    """Write the hold for runs without a permit, at most a page. The caller counts the runs.

    While the cause stays, its time stays, too. MySQL assigns in order, so the time, which depends on the old cause,
    comes first.
    """
    since = case((runs.waiting_cause == hold.cause, runs.waiting_since), else_=now)
    assignments: list[Assignment] = [(runs.waiting_since, since), (runs.waiting_cause, hold.cause)]
    assignments += [(runs.waiting_message, hold.message), (runs.held_by, hold.scope)]
    assignments += [(runs[name], value) for name, value in more.items()]
    connection.execute(update(histories).where(runs.id.in_(run_ids)).ordered_values(*assignments))


def hold_runs(connection: Connection, run_ids: Iterable[int], hold: Hold, now: datetime) -> None:
    """Write the hold for the runs that still wait for their permit, and count them for the hold's scope."""
    for page in pages(sorted(run_ids), MOST_LOCKED):
        # locked: a run may leave the line, or come back, at any moment
        if in_line := connection.execute(_IN_LINE, {"run_ids": page}).all():
            write_hold(connection, [row.id for row in in_line], hold, now)
            scopes = Counter(row.held_by for row in in_line if row.held_by is not None)
            former = {scope: Use(held=number) for scope, number in scopes.items()}
            append_change(connection, former, {hold.scope: Use(held=len(in_line))} if hold.scope else {})


def write_holds(connection: Connection, present: Situation, new: AdmissionPlan, now: datetime) -> dict[int, str]:
    """Write the holds that have changed. Return the causes for the QUEUED tasks of PROCESSING runs, by RunID.

    The row of a run without a permit says why the run waits. For an admitted run, the rows of its tasks say so.
    """
    changed = defaultdict[Hold, list[int]](list)
    scopes = defaultdict[str | None, list[int]](list)
    causes = dict[int, str]()
    for run_id, row in present.rows.items():
        hold, is_started = new.holds.get(run_id), row.status is not RunStatus.INITIALIZING
        if hold and is_started:
            causes[run_id] = hold.cause
        if row.admitted_at is None and run_id not in new.granted:
            if hold and hold != Hold(row.waiting_cause, row.held_by, row.waiting_message):
                changed[hold].append(run_id)
        elif is_started and run_id not in new.undecided and row.held_by != (hold.scope if hold else None):
            scopes[hold.scope if hold else None].append(run_id)
    for hold, run_ids in changed.items():
        hold_runs(connection, run_ids, hold, now)
    for scope, run_ids in scopes.items():
        for page in pages(sorted(run_ids)):
            is_admitted = runs.admitted_at.is_not(None)  # or the run has been reopened since
            connection.execute(update(histories).where(runs.id.in_(page), is_admitted).values(held_by=scope))
    return causes
