"""Claims on nudges. At most one nudge to a run is under way."""

from collections.abc import Iterable, Sequence

from sqlalchemy import ColumnElement, Connection, and_, select, update

from crawler_lifecycle.adapters.sql.pages import pages
from crawler_lifecycle.adapters.sql.schema import OWN_INSTALLATION, histories
from crawler_lifecycle.adapters.sql.transactions import LIVE, OnDatabase, reading, transaction
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.ports import Nudge

runs = histories.c
COLUMNS = (runs.id, runs.run_uid, runs.supervisor_workflow_id, runs.nudge_sent)  # requests and entries are long


class NudgeClaims(OnDatabase):
    def claim_nudges(self, run_uids: Iterable[str]) -> list[Nudge]:
        claimed: list[Nudge] = []
        for uids in pages(sorted(set(run_uids))):
            try:
                claimed.extend(self._claim_page(uids))
            except LifecycleError:
                if not claimed:
                    raise
                break  # otherwise the caller would not learn about the nudges claimed already
        return claimed

    @transaction
    def _claim_page(self, tx: Connection, uids: Sequence[str]) -> list[Nudge]:
        ids = tx.scalars(select(runs.id).where(runs.run_uid.in_(uids), _idle())).all()
        # the lock, by primary key as everywhere, keeps other watchers away; SQLite admits a single writer anyway
        tx.execute(select(runs.id).where(runs.id.in_(ids)).order_by(runs.id).with_for_update())
        rows = tx.execute(select(*COLUMNS).where(runs.id.in_(ids), _idle())).all()
        claimed = [Nudge(row.id, row.run_uid, row.supervisor_workflow_id, row.nudge_sent + 1) for row in rows]
        one_more = update(histories).where(runs.id.in_([nudge.run_id for nudge in claimed]))
        tx.execute(one_more.values(nudge_sent=runs.nudge_sent + 1))
        return claimed

    @reading
    def unanswered_nudges(self, connection: Connection) -> list[Nudge]:
        unanswered = runs.nudge_sent > runs.nudge_acknowledged
        waits = (runs.status.in_(LIVE), unanswered, runs.installation == OWN_INSTALLATION)
        rows = connection.execute(select(*COLUMNS).where(*waits).order_by(runs.id)).all()
        return [Nudge(row.id, row.run_uid, row.supervisor_workflow_id, row.nudge_sent) for row in rows]

    @reading
    def open_among(self, connection: Connection, run_uids: Iterable[str]) -> set[str]:
        open_uids: set[str] = set()
        for uids in pages(sorted(set(run_uids))):
            query = select(runs.run_uid).where(runs.run_uid.in_(uids), runs.status.in_(LIVE))
            open_uids.update(connection.scalars(query))
        return open_uids


def _idle() -> ColumnElement[bool]:
    return and_(runs.status.in_(LIVE), runs.nudge_sent <= runs.nudge_acknowledged)
