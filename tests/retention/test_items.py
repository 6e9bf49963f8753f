"""Old items of a manager that stays open."""

from pathlib import Path

import pytest
from sqlalchemy import func, select, update

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.flow_schema import flows
from crawler_lifecycle.database.manager_schema import manager_attempts, manager_items
from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.errors import NotFound
from crawler_lifecycle.flows.model.requests import CancelItems, RetryItems
from crawler_lifecycle.flows.model.turns import Effects
from crawler_lifecycle.flows.ports.ledger import Delivery
from crawler_lifecycle.model.manager_items import Verdict
from crawler_lifecycle.model.states import ExportState, RunStatus
from crawler_lifecycle.retention.model import KeepReason, Kind
from tests.kit.data.managers import Managed, added, managed, over
from tests.retention.old_runs import LONG_AGO, ids, passed, retention


@pytest.fixture
def flow(database: Database) -> Managed:
    """A manager with an item that completed, an item that failed, an item without a reaction, and a waiting item."""
    flow = managed(database)
    flow.offer("done", "failed", "ended", "waits")
    verdicts = {1: Verdict.OK, 2: Verdict.BAD}
    for number in (1, 2, 3):
        flow.ended_run(flow.started(number), RunStatus.FAILED if number == 2 else RunStatus.COMPLETED)
    for job in flow.ended():
        if job.number in verdicts:
            flow.react(job, verdicts[job.number], Effects(stats={"pages": 3}))
    grow_old(database)
    return flow


def grow_old(database: Database) -> None:
    with database.transaction() as tx:
        ended = {"finished_at": LONG_AGO, "export_state": ExportState.DONE, "end_number": 1}
        tx.execute(update(histories).values(ended | {"created_at": LONG_AGO}))
        tx.execute(update(manager_items).values(changed_at=LONG_AGO))


def stored_items(database: Database) -> list[int]:
    with database.read() as connection:
        return list(connection.scalars(select(manager_items.c.number).order_by(manager_items.c.number)))


def test_settled_items_leave_and_their_keys_and_sums_stay(database: Database, flow: Managed, tmp_path: Path) -> None:
    doors = flow.store.manager_doors
    before = doors.statuses(flow.id)[0].counts, doors.sums([flow.uid]), flow.begun().stats
    report = passed(retention(database, tmp_path))
    assert (report.removed, report.held) == ({Kind.RUNS: 2, Kind.ITEMS: 2}, {KeepReason.FLOW: 1})
    assert stored_items(database) == [3, 4]
    with database.read() as connection:
        assert connection.scalar(select(func.count()).select_from(manager_attempts)) == 1
    assert (doors.statuses(flow.id)[0].counts, doors.sums([flow.uid]), flow.begun().stats) == before
    assert passed(retention(database, tmp_path)).removed == {}


def test_a_repeat_of_a_removed_item_is_dropped(database: Database, flow: Managed, tmp_path: Path) -> None:
    passed(retention(database, tmp_path))
    assert flow.offer("done", "new", "failed", read=7) == [None, 5, None]
    assert flow.commit(added("done", "done"), call="again") == [1]
    assert flow.store.manager_doors.sums([flow.uid])[flow.uid].repeated == 2
    assert flow.offer("done", "waits", read=7, is_reread=True) == [1, 4], "a new object reads the generator again"


def test_a_removed_item_cannot_be_retried_or_cancelled(database: Database, flow: Managed, tmp_path: Path) -> None:
    passed(retention(database, tmp_path))
    doors = flow.store.manager_doors
    with pytest.raises(NotFound, match="has no item 2"):
        doors.retry_items(flow.id, RetryItems(numbers=(2,)))
    with pytest.raises(NotFound, match="has no item 1"):
        doors.cancel_items(flow.id, CancelItems(numbers=(1,)))
    assert doors.retry_items(flow.id, RetryItems()).count == 0, "the failed item is gone"
    assert [entry.number for entry in flow.waiting()] == [4]


def test_the_reaction_releases_the_run_and_then_the_item(database: Database, flow: Managed, tmp_path: Path) -> None:
    passed(retention(database, tmp_path))
    (job,) = flow.ended()
    flow.react(job)
    grow_old(database)
    assert passed(retention(database, tmp_path)).removed == {Kind.RUNS: 1, Kind.ITEMS: 1}
    assert (ids(database), stored_items(database)) == ([], [4])


def test_the_keys_leave_with_the_flow(database: Database, flow: Managed, tmp_path: Path) -> None:
    passed(retention(database, tmp_path))
    (job,) = flow.ended()
    flow.react(job)
    over(flow, "finished")
    flow.store.flow_ends.settle(flow.uid, 1, list(Delivery), {})
    with database.transaction() as tx:
        tx.execute(update(flows).values(stopped_at=LONG_AGO))
    assert passed(retention(database, tmp_path)).removed[Kind.FLOWS] == 1
