"""Claims on nudges. At most one nudge to a run is under way."""

from collections.abc import Iterable, Sequence

from sqlalchemy import ColumnElement, Connection, and_, select, update

from crawler_lifecycle.adapters.sql.pages import pages
from crawler_lifecycle.adapters.sql.schema import OWN_INSTALLATION, histories
from crawler_lifecycle.adapters.sql.transactions import LIVE, OnDatabase, reading, transaction
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.ports import Nudge

runs = histories.c
# the whole row would bring the long request and catalogue's entry
COLUMNS = (runs.id, runs.run_uid, runs.supervisor_workflow_id, runs.nudge_sent)


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
        ids = tx.scalars(select(runs.id).where(runs.run_uid.in_(uids), _may_be_nudged())).all()
        # without the lock, two watchers would claim the same nudge (SQLite has a single writer anyway). Rows are locked
        # by primary key, as everywhere, against deadlocks, and read again: they may have changed before the lock
        tx.execute(select(runs.id).where(runs.id.in_(ids)).order_by(runs.id).with_for_update())
        rows = tx.execute(select(*COLUMNS).where(runs.id.in_(ids), _may_be_nudged())).all()
        claimed = [Nudge(row.id, row.run_uid, row.supervisor_workflow_id, row.nudge_sent + 1) for row in rows]
        one_more = update(histories).where(runs.id.in_([nudge.run_id for nudge in claimed]))
        tx.execute(one_more.values(nudge_sent=runs.nudge_sent + 1))
        return claimed

    @reading
    def unanswered_nudges(self, connection: Connection) -> list[Nudge]:
        # a restored database also has runs from another installation, with another watcher
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


def _may_be_nudged() -> ColumnElement[bool]:
    """Return the condition for runs that are not over and have acknowledged their last nudge."""
    return and_(runs.status.in_(LIVE), runs.nudge_sent <= runs.nudge_acknowledged)
