"""Permits and holds on runs' rows. The caller holds the lock of `lock_admission`."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, case, update

from crawler_lifecycle.database.pages import pages
from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.database.transactions import Assignment
from crawler_lifecycle.limits.rules.planning import AdmissionPlan, obstacle_in_turn
from crawler_lifecycle.limits.rules.rooms import Hold, Rooms, pause_in
from crawler_lifecycle.limits.store.admission import Situation, limits_on_record, situation
from crawler_lifecycle.limits.store.front import runs_of_a_pass
from crawler_lifecycle.limits.store.uses import uses
from crawler_lifecycle.model.limits import INSTALLATION
from crawler_lifecycle.model.reasons import PAUSED
from crawler_lifecycle.model.states import RunStatus

runs = histories.c
NO_WAIT = dict.fromkeys(("waiting_cause", "waiting_since", "waiting_message"))


def admit(connection: Connection, run_id: int, now: datetime) -> None:
    """Write the run's permit. The permit ends with the run, or when a pause finds the run without a job."""
    connection.execute(update(histories).where(runs.id == run_id).values(admitted_at=now, **NO_WAIT))


def end_wait(connection: Connection, run_id: int) -> None:
    """Write that the pause which held the run is over."""
    is_paused = runs.waiting_cause == PAUSED
    connection.execute(update(histories).where(runs.id == run_id, is_paused).values(NO_WAIT))


def take_permit_back(connection: Connection, run_id: int, hold: Hold, now: datetime) -> None:
    """Write the run back into the line. No job of the run exists, and none may be made."""
    write_hold(connection, [run_id], hold, now, admitted_at=None)


def obstacle_for(connection: Connection, run_id: int, most_tasks: int, now: datetime) -> Hold | None:
    """Return what holds the run's main task: a pause, and before the permit also a limit or another run in the line.

    The line may have thousands of runs, and each run asks. Only with room under the limits the front of the line is
    read, as in a pass with a task for each free place.
    """
    limits = limits_on_record(connection, most_tasks)
    run = situation(connection, limits, now, [run_id]).run(run_id)
    if run.is_admitted:
        return pause_in(run.scopes, limits)
    used = uses(connection, limits)
    rooms = Rooms(limits, used)
    if hold := rooms.obstacle(run):
        return hold
    free = max(0, (limits[INSTALLATION].tasks or 0) - rooms.used[INSTALLATION].tasks)
    others = situation(connection, limits, now, runs_of_a_pass(connection, limits, free, now) - {run_id})
    return obstacle_in_turn(run, [run, *others.runs], limits, used)


def write_hold(connection: Connection, run_ids: Iterable[int], hold: Hold, now: datetime, **more: Any) -> None:
    """Write what holds runs that wait for their permit. While the cause stays, its time stays, too.

    MySQL assigns in order, so the time, which depends on the old cause, comes first.
    """
    since = case((runs.waiting_cause == hold.cause, runs.waiting_since), else_=now)
    assignments: list[Assignment] = [(runs.waiting_since, since), (runs.waiting_cause, hold.cause)]
    assignments += [(runs.waiting_message, hold.message), (runs.held_by, hold.scope)]
    assignments += [(runs[name], value) for name, value in more.items()]
    for page in pages(sorted(run_ids)):
        connection.execute(update(histories).where(runs.id.in_(page)).ordered_values(*assignments))


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
        write_hold(connection, run_ids, hold, now)
    for scope, run_ids in scopes.items():
        for page in pages(sorted(run_ids)):
            connection.execute(update(histories).where(runs.id.in_(page)).values(held_by=scope))
    return causes
