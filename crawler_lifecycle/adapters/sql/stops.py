"""Stops: requests to end a run, and the phases on the way."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, update

from crawler_lifecycle.adapters.sql.reading import own_row, run_record, run_row
from crawler_lifecycle.adapters.sql.schema import histories
from crawler_lifecycle.adapters.sql.transactions import OnDatabase, fence, hold, log, transaction
from crawler_lifecycle.contract.records import RunRecord
from crawler_lifecycle.contract.requests import StopRequest
from crawler_lifecycle.contract.states import Intent, RunStatus, StopPhase
from crawler_lifecycle.contract.steps.run import RunRef
from crawler_lifecycle.errors import Over

STOP, FORCE_STOP = "stop", "force stop"
STOPS = (STOP, FORCE_STOP)


class Stops(OnDatabase):
    @transaction
    def request_stop(self, tx: Connection, run_id: int, stop: StopRequest, asked_at: datetime) -> RunRecord:
        hold(tx, run_id)
        row = own_row(tx, run_id)
        if row.status.is_over:
            raise Over(f"run {run_id} is over ({row.status}, {row.reason}): there is nothing to stop")
        _write(tx, run_id, stop, asked_at)
        return run_record(tx, run_id)

    @transaction
    def log_stop(
        self, tx: Connection, run: RunRef, stop: StopRequest, asked_at: datetime, ends_as: str | None = None
    ) -> Intent:
        fence(tx, run)
        return _write(tx, run.run_id, stop, asked_at, ends_as)

    @transaction
    def note_stop_phase(self, tx: Connection, run: RunRef, phase: StopPhase, message: str) -> None:
        fence(tx, run)
        end = run_row(tx, run.run_id).end_number
        log(tx, run, f"{phase}:{end}", {"at": self._db.clock(), "event": phase, "message": message})


def _write(
    connection: Connection, run_id: int, stop: StopRequest, asked_at: datetime, ends_as: str | None = None
) -> Intent:
    """Write the stop and return the intent. An intent never goes back. For a run that is over, write only the line.

    The caller holds the lock on the run's row.
    """
    row = run_row(connection, run_id)
    intent = Intent(row.intent)
    if not row.status.is_over:
        intent = Intent.FORCE if stop.force or intent is Intent.FORCE else Intent.STOP
        values = {"intent": intent, "status": RunStatus.STOPPING, "reason": row.reason or ends_as}
        connection.execute(update(histories).where(histories.c.id == run_id).values(values))
    run = RunRef(run_id=run_id, run_uid=row.run_uid, epoch=row.epoch)
    log(connection, run, _key(stop, asked_at), _line(stop, asked_at))
    return intent


def _key(stop: StopRequest, asked_at: datetime) -> str:
    """Return the key for the stop's line.

    The content is part of the key, since two stops can have the same time: Temporal's own tools send stops without a
    time, and a workflow that takes several stops at once gives them its present time.
    """
    return ":".join(("stop", asked_at.isoformat(), str(stop.actor), stop.door, _event(stop), stop.reason or ""))


def _line(stop: StopRequest, asked_at: datetime) -> dict[str, Any]:
    message = stop.reason or "no reason given"
    return {"at": asked_at, "event": _event(stop), "message": message, "actor": stop.actor, "door": stop.door}


def _event(stop: StopRequest) -> str:
    return FORCE_STOP if stop.force else STOP
