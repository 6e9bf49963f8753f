"""Stops: requests to end a run, and the phases in which a stop takes place."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, update

from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.database.transactions import OnDatabase, fence, lock_run, log, transaction
from crawler_lifecycle.errors import Over
from crawler_lifecycle.limits.store.uses import counting
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.run_plan import RunRef
from crawler_lifecycle.model.states import Intent, RunStatus, StopPhase
from crawler_lifecycle.runs.store.histories import FORCE_STOP, NOT_WAITING, STOP
from crawler_lifecycle.runs.store.nudges import claim_nudge_for_change
from crawler_lifecycle.runs.store.reading import own_row, run_record, run_row

OF_A_FLOW = "flow"  # door of stops that a flow asks for


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
