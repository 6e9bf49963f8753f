"""Which supervisors may be nudged? One nudge a run is under way at most."""

from collections.abc import Iterable, Sequence
from functools import partial

from sqlalchemy import Connection, select, update

from crawler_lifecycle.adapters.sql.database import Database
from crawler_lifecycle.adapters.sql.fence import LIVE
from crawler_lifecycle.adapters.sql.pages import pages, rows_of
from crawler_lifecycle.adapters.sql.schema import histories
from crawler_lifecycle.ports import Nudge

run = histories.c


class SqlNudges:
    def __init__(self, db: Database) -> None:
        self._db = db

    def claim(self, run_uids: Iterable[str]) -> list[Nudge]:
        claimed: list[Nudge] = []
        for uids in pages(sorted(set(run_uids))):
            claimed.extend(self._db.transact(partial(_claim, uids)))
        return claimed

    def open_among(self, run_uids: Iterable[str]) -> set[str]:
        found: set[str] = set()
        with self._db.read() as connection:
            for uids in pages(sorted(set(run_uids))):
                among = rows_of(connection, [run.run_uid], [(uid,) for uid in uids])
                query = select(run.run_uid).where(run.run_uid == among.c.run_uid, run.status.in_(LIVE))
                found.update(connection.scalars(query))
        return found


def _claim(uids: Sequence[str], connection: Connection) -> list[Nudge]:
    among = rows_of(connection, [run.run_uid], [(uid,) for uid in uids])
    idle = select(run.id, run.run_uid, run.supervisor_workflow_id, run.nudge_sent).where(
        run.run_uid == among.c.run_uid, run.status.in_(LIVE), run.nudge_sent <= run.nudge_acknowledged
    )
    # the lock keeps other watchers from these rows; SQLite, which ignores it, lets one writer in at a time
    rows = connection.execute(idle.order_by(run.id).with_for_update()).all()
    if rows:
        ids = [row.id for row in rows]
        connection.execute(update(histories).where(run.id.in_(ids)).values(nudge_sent=run.nudge_sent + 1))
    return [Nudge(row.id, row.run_uid, row.supervisor_workflow_id, row.nudge_sent + 1) for row in rows]
