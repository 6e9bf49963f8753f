"""Which supervisors may be nudged? One nudge a run is under way at most."""

from collections.abc import Iterable, Sequence

from sqlalchemy import ColumnElement, Connection, and_, select, update

from crawler_lifecycle.adapters.sql.fence import LIVE
from crawler_lifecycle.adapters.sql.pages import pages
from crawler_lifecycle.adapters.sql.schema import histories, installation
from crawler_lifecycle.adapters.sql.transactions import OnDatabase, reading, transaction
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.ports import Nudge

run = histories.c
OURS = select(installation.c.uid).scalar_subquery()
COLUMNS = (run.id, run.run_uid, run.supervisor_workflow_id, run.nudge_sent)  # requests and entries are long


class NudgeClaims(OnDatabase):
    def claim_nudges(self, run_uids: Iterable[str]) -> list[Nudge]:
        claimed: list[Nudge] = []
        for uids in pages(sorted(set(run_uids))):
            try:
                claimed.extend(self._claim_page(uids))
            except LifecycleError:
                if not claimed:
                    raise
                break  # those before are this caller's by now: it has to hear of them
        return claimed

    @transaction
    def _claim_page(self, tx: Connection, uids: Sequence[str]) -> list[Nudge]:
        ids = tx.scalars(select(run.id).where(run.run_uid.in_(uids), _idle())).all()
        # the lock, by primary key alone as everywhere, keeps other watchers away; SQLite lets one writer in at a time
        tx.execute(select(run.id).where(run.id.in_(ids)).order_by(run.id).with_for_update())
        rows = tx.execute(select(*COLUMNS).where(run.id.in_(ids), _idle())).all()
        claimed = [Nudge(row.id, row.run_uid, row.supervisor_workflow_id, row.nudge_sent + 1) for row in rows]
        one_more = update(histories).where(run.id.in_([nudge.run_id for nudge in claimed]))
        tx.execute(one_more.values(nudge_sent=run.nudge_sent + 1))
        return claimed

    @reading
    def unanswered_nudges(self, connection: Connection) -> list[Nudge]:
        waits = (run.status.in_(LIVE), run.nudge_sent > run.nudge_acknowledged, run.installation == OURS)
        rows = connection.execute(select(*COLUMNS).where(*waits).order_by(run.id)).all()
        return [Nudge(row.id, row.run_uid, row.supervisor_workflow_id, row.nudge_sent) for row in rows]

    @reading
    def open_among(self, connection: Connection, run_uids: Iterable[str]) -> set[str]:
        found: set[str] = set()
        for uids in pages(sorted(set(run_uids))):
            found.update(connection.scalars(select(run.run_uid).where(run.run_uid.in_(uids), run.status.in_(LIVE))))
        return found


def _idle() -> ColumnElement[bool]:
    return and_(run.status.in_(LIVE), run.nudge_sent <= run.nudge_acknowledged)
