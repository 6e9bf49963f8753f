"""Stops, which are requests to end a run, their phases, and claims on nudges.

A claim is the right to send the next nudge to a run. A run's nudges are numbered. The next nudge can be claimed after
the run's workflow has acknowledged the last nudge.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, select, update

from crawler_lifecycle.database.pages import pages
from crawler_lifecycle.database.schema import OWN_INSTALLATION, histories
from crawler_lifecycle.database.transactions import (
    OPEN_STATUSES,
    OnDatabase,
    fence,
    lock_run,
    log,
    reading,
    transaction,
)
from crawler_lifecycle.errors import LifecycleError, Over
from crawler_lifecycle.limits.store.uses import counting
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.run_plan import RunRef
from crawler_lifecycle.model.states import Intent, RunStatus, StopPhase
from crawler_lifecycle.model.supervision import Nudge
from crawler_lifecycle.runs.store.histories import FORCE_STOP, NOT_WAITING, STOP
from crawler_lifecycle.runs.store.reading import own_row, run_record, run_row

runs = histories.c
# not all columns: a row holds a long request and a long catalogue entry
COLUMNS = (runs.id, runs.run_uid, runs.supervisor_workflow_id, runs.nudge_sent)
OF_A_FLOW = "flow"  # door of stops that a flow asks for


class NudgeClaims(OnDatabase):
    """The methods in `runs.ports.Claims` for nudges."""

    def claim_nudges(self, run_uids: Iterable[str]) -> list[Nudge]:
        """Return the next nudge for every given run that may be nudged. After an error, return the nudges so far."""
        claimed: list[Nudge] = []
        for uids in pages(sorted(set(run_uids))):
            try:
                claimed.extend(self._claim_page(uids))
            except LifecycleError:
                if not claimed:
                    raise
                break  # with an error, the caller would not get the nudges claimed so far, and they would never be sent
        return claimed

    @transaction
    def _claim_page(self, tx: Connection, uids: Sequence[str]) -> list[Nudge]:
        ids = tx.scalars(select(runs.id).where(runs.run_uid.in_(uids), _may_be_nudged())).all()
        # Without the lock, two watchers in MySQL would claim the same nudge. All writers lock runs by primary key:
        # locks through two indexes may deadlock. Rows may have changed before the lock, so they are read again.
        tx.execute(select(runs.id).where(runs.id.in_(ids)).order_by(runs.id).with_for_update())
        rows = tx.execute(select(*COLUMNS).where(runs.id.in_(ids), _may_be_nudged())).all()
        claimed = [Nudge(row.id, row.run_uid, row.supervisor_workflow_id, row.nudge_sent + 1) for row in rows]
        claimed_runs = update(histories).where(runs.id.in_([nudge.run_id for nudge in claimed]))
        tx.execute(claimed_runs.values(nudge_sent=runs.nudge_sent + 1))
        return claimed

    @reading
    def unanswered_nudges(self, connection: Connection) -> list[Nudge]:
        """Return the last nudges of open runs, without the acknowledged nudges."""
        is_unanswered = runs.nudge_sent > runs.nudge_acknowledged
        # a restored database also has runs from another installation, with another watcher
        is_own_open_run = (runs.status.in_(OPEN_STATUSES), runs.installation == OWN_INSTALLATION)
        rows = connection.execute(select(*COLUMNS).where(*is_own_open_run, is_unanswered).order_by(runs.id)).all()
        return [Nudge(row.id, row.run_uid, row.supervisor_workflow_id, row.nudge_sent) for row in rows]

    @reading
    def open_among(self, connection: Connection, run_uids: Iterable[str]) -> set[str]:
        """Return the run_uids of open runs."""
        open_uids: set[str] = set()
        for uids in pages(sorted(set(run_uids))):
            query = select(runs.run_uid).where(runs.run_uid.in_(uids), runs.status.in_(OPEN_STATUSES))
            open_uids.update(connection.scalars(query))
        return open_uids


def claim_nudge(connection: Connection, run_id: int) -> None:
    """Claim the run's next nudge, which the watcher sends as an unanswered nudge. The caller holds the run's lock."""
    nudged = update(histories).where(runs.id == run_id, _may_be_nudged())
    connection.execute(nudged.values(nudge_sent=runs.nudge_sent + 1))


def claim_nudge_for_change(connection: Connection, run_id: int) -> None:
    """Claim a nudge for an open run, also before the answer to the last nudge. The caller holds the run's lock.

    The answer may come from a look that has read the run's row before the caller's change.
    """
    connection.execute(update(histories).where(runs.id == run_id).values(nudge_sent=runs.nudge_sent + 1))


def _may_be_nudged() -> ColumnElement[bool]:
    """Return the condition for runs that are not over and have acknowledged their last nudge."""
    return and_(runs.status.in_(OPEN_STATUSES), runs.nudge_sent <= runs.nudge_acknowledged)


class Stops(OnDatabase):
    """The methods in `runs.ports.Runs` for stops."""

    @transaction
    def request_stop(self, tx: Connection, run_id: int, stop: StopRequest, asked_at: datetime) -> RunRecord:
        """Write a stop that came through a door. Raise Over if the run is over.

        The nudge is for a signal that gets lost: without one, a run that waits for its permit reads the stop a quarter
        of an hour later.
        """
        lock_run(tx, run_id)
        row = own_row(tx, run_id)
        if row.status.is_over:
            raise Over(f"run {run_id} is over ({row.status}, {row.reason}): there is nothing to stop")
        _write_stop(tx, run_id, stop, asked_at)
        claim_nudge_for_change(tx, run_id)
        return run_record(tx, run_id)

    @transaction
    def log_stop(
        self, tx: Connection, run: RunRef, stop: StopRequest, asked_at: datetime, ends_as: str | None = None
    ) -> Intent:
        """Write a stop that the supervisor received, also for a run that is over.

        `ends_as`, if given, becomes the reason of an open run without a reason.
        """
        fence(tx, run)
        return _write_stop(tx, run.run_id, stop, asked_at, ends_as)

    @transaction
    def note_stop_phase(self, tx: Connection, run: RunRef, phase: StopPhase, message: str) -> None:
        fence(tx, run)
        end = run_row(tx, run.run_id).end_number
        log(tx, run, f"{phase}:{end}", {"at": self._db.clock(), "event": phase, "message": message})


def _write_stop(
    connection: Connection, run_id: int, stop: StopRequest, asked_at: datetime, ends_as: str | None = None
) -> Intent:
    """Write the stop into the run's row and timeline, and return the run's intent: a FORCE stays FORCE.

    If the run is over, write only into the timeline. The caller holds the lock on the run's row.
    """
    row = run_row(connection, run_id)
    intent = Intent(row.intent)
    if not row.status.is_over:
        is_force = stop.force or intent is Intent.FORCE
        intent = Intent.FORCE if is_force else Intent.STOP
        values = {"intent": intent, "status": RunStatus.STOPPING, "reason": row.reason or ends_as}
        if row.held_by is not None:
            values |= NOT_WAITING  # the run waits for no permit any more
        with counting(connection, run_id):
            connection.execute(update(histories).where(histories.c.id == run_id).values(values))
    run = RunRef(run_id=run_id, run_uid=row.run_uid, epoch=row.epoch)
    # a flow asks by its supervisor and by its manager's host, and the run shows a single stop
    since = row.begun_at if stop.door == OF_A_FLOW else asked_at
    log(connection, run, _line_key(stop, since), _timeline_line(stop, asked_at))
    return intent


def _line_key(stop: StopRequest, since: datetime) -> str:
    """Return the key for the stop's line in the timeline.

    The key contains more than the time, since two stops can have the same time: Temporal's own tools send stops without
    a time, and a workflow gives its present time to all these stops.
    """
    return ":".join(("stop", since.isoformat(), str(stop.actor), stop.door, _event(stop), stop.reason or ""))


def _timeline_line(stop: StopRequest, asked_at: datetime) -> dict[str, Any]:
    message = stop.reason or "no reason given"
    return {"at": asked_at, "event": _event(stop), "message": message, "actor": stop.actor, "door": stop.door}


def _event(stop: StopRequest) -> str:
    return FORCE_STOP if stop.force else STOP
