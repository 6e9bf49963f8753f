"""Numbers for metrics. The statements read only open runs and pending exports, by indexes."""

from sqlalchemy import Connection, func, select

from crawler_lifecycle.database.schema import histories, scope_limits
from crawler_lifecycle.database.transactions import OPEN_STATUSES
from crawler_lifecycle.model.states import ExportState
from crawler_lifecycle.runs.ports.records import RunFigures

runs = histories.c
PAUSED_SCOPES = select(scope_limits.c.scope).where(scope_limits.c.paused_at.is_not(None))
IS_OPEN = runs.status.in_(OPEN_STATUSES)
BY_STATUS = select(runs.status, func.count().label("number")).where(IS_OPEN).group_by(runs.status)
LOOKS = select(func.min(runs.last_look_at), func.min(runs.next_look_at)).where(IS_OPEN)
QUEUED = select(func.min(runs.begun_at)).where(
    runs.held_by.is_not(None), runs.admitted_at.is_(None), runs.held_by.not_in(PAUSED_SCOPES)
)
EXPORTS = select(func.count(), func.min(runs.finished_at)).where(runs.export_state == ExportState.PENDING)
FAILED_EXPORTS = select(func.count()).where(runs.export_state == ExportState.FAILED)


def run_figures(connection: Connection) -> RunFigures:
    counts = {row.status: row.number for row in connection.execute(BY_STATUS)}
    looked_at, look_due_at = connection.execute(LOOKS).one()
    pending_exports, pending_since = connection.execute(EXPORTS).one()
    return RunFigures(
        open={status: counts.get(status, 0) for status in OPEN_STATUSES},
        queued_since=connection.scalar(QUEUED),
        looked_at=looked_at,
        look_due_at=look_due_at,
        pending_exports=pending_exports,
        export_pending_since=pending_since,
        failed_exports=connection.scalar(FAILED_EXPORTS) or 0,
    )
