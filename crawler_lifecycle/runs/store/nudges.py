"""Claims on nudges: the right to send the next nudge to a run.

A run's nudges are numbered. The next nudge can be claimed after the run's workflow has acknowledged the last nudge.
"""

from collections.abc import Iterable, Sequence

from sqlalchemy import ColumnElement, Connection, and_, select, update

from crawler_lifecycle.database.pages import pages
from crawler_lifecycle.database.schema import OWN_INSTALLATION, histories
from crawler_lifecycle.database.transactions import OPEN_STATUSES, OnDatabase, reading, transaction
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.model.supervision import Nudge

runs = histories.c
# not all columns: a row holds a long request and a long catalogue entry
COLUMNS = (runs.id, runs.run_uid, runs.supervisor_workflow_id, runs.nudge_sent)


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
