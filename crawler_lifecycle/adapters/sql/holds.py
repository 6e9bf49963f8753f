"""Permits and holds on runs' rows. The caller holds the lock of `lock_admission`."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, case, update

from crawler_lifecycle.adapters.sql.admission import Situation, situation
from crawler_lifecycle.adapters.sql.pages import pages
from crawler_lifecycle.adapters.sql.schema import histories
from crawler_lifecycle.adapters.sql.transactions import Assignment
from crawler_lifecycle.contract.states import RunStatus
from crawler_lifecycle.domain.admission import Hold, Plan, Rooms, comes_before
from crawler_lifecycle.domain.reasons import ADMISSION

runs = histories.c


def admit(connection: Connection, run_id: int, now: datetime) -> None:
    """Write the run's permit. The permit ends with the run."""
    no_wait = dict.fromkeys(("waiting_cause", "waiting_since", "waiting_message"))
    connection.execute(update(histories).where(runs.id == run_id).values(admitted_at=now, **no_wait))


def obstacle_for(connection: Connection, run_id: int, most_tasks: int, now: datetime) -> Hold | None:
    """Return what keeps the run from beginning now: a limit, a pause, or a run before it in the line."""
    present = situation(connection, most_tasks, now)
    run = next(candidate for candidate in present.runs if candidate.run_id == run_id)
    if hold := Rooms(present.limits, present.runs).obstacle(run):
        return hold
    for other in present.runs:
        if other.is_in_line and other.held_by in run.scopes and comes_before(other, run):
            return Hold(ADMISSION, other.held_by, "other runs are before this run in the line")
    return None


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


def write_holds(connection: Connection, present: Situation, new: Plan, now: datetime) -> dict[int, str]:
    """Write the holds that have changed. Return the causes for the QUEUED tasks of PROCESSING runs, by RunID."""
    changed = defaultdict[Hold, list[int]](list)
    scopes = defaultdict[str | None, list[int]](list)
    causes = dict[int, str]()
    for run_id, row in present.rows.items():
        hold = new.holds.get(run_id)
        if row.status is RunStatus.INITIALIZING:
            if hold and hold != Hold(row.waiting_cause, row.held_by, row.waiting_message):
                changed[hold].append(run_id)
        elif run_id not in new.undecided:
            if row.held_by != (hold.scope if hold else None):
                scopes[hold.scope if hold else None].append(run_id)
            if hold:
                causes[run_id] = hold.cause
    for hold, run_ids in changed.items():
        write_hold(connection, run_ids, hold, now)
    for scope, run_ids in scopes.items():
        for page in pages(sorted(run_ids)):
            connection.execute(update(histories).where(runs.id.in_(page)).values(held_by=scope))
    return causes
