"""Is every event kept once, and is what is done never undone?"""

import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import NotFound
from crawler_lifecycle.model.notices import ExportEvent
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.states import ExportKind, ExportState, RunStatus
from tests.kit.data.databases import MakeRun, ref_to
from tests.kit.data.exports import event_of


def state_of(database: Database, run: RunRecord) -> str:
    with database.read() as connection:
        state: str = connection.exec_driver_sql(
            f"SELECT export_state FROM histories WHERE id = {run.run_id:d}"
        ).scalar_one()
        return state


def test_an_event_is_kept_once(database: Database, make_run: MakeRun) -> None:
    run, port = make_run(), SqlStore(database).runs
    event = event_of(run)
    first = port.open_export(ref_to(run), event)
    assert (first.event_id, first.kind, first.state) == (event.event_id, "run_ended", ExportState.PENDING)
    assert port.open_export(ref_to(run), event) == first
    assert SqlStore(database).records.details(run.run_id).exports == [first]
    with database.read() as connection:
        kept = connection.exec_driver_sql("SELECT event FROM exports").scalar_one()
    assert ExportEvent.model_validate_json(kept) == event


def test_what_is_done_is_not_undone(database: Database, make_run: MakeRun) -> None:
    run, port = make_run(), SqlStore(database).runs
    event = event_of(run)
    port.open_export(ref_to(run), event)
    port.settle_export(ref_to(run), event.event_id, ExportState.FAILED, None, "no space left")
    (failed,) = SqlStore(database).records.details(run.run_id).exports
    assert (failed.state, failed.problem) == (ExportState.FAILED, "no space left")
    port.settle_export(ref_to(run), event.event_id, ExportState.DONE, "s3://bucket/x.zip", None)
    (done,) = SqlStore(database).records.details(run.run_id).exports
    assert (done.state, done.location, done.problem) == (ExportState.DONE, "s3://bucket/x.zip", None)
    assert done.finished_at
    port.settle_export(ref_to(run), event.event_id, ExportState.FAILED, None, "too late")
    assert SqlStore(database).records.details(run.run_id).exports == [done]
    assert port.open_export(ref_to(run), event) == done


def test_a_run_is_exported_when_everything_of_it_is(database: Database, make_run: MakeRun) -> None:
    run, port = make_run(), SqlStore(database).runs
    SqlStore(database).tasks.cancel_queued(ref_to(run), "stopped")
    port.close(ref_to(run), RunStatus.FAILED, "stopped")
    ended, files = event_of(run), event_of(run, ExportKind.FILES_READY)
    port.open_export(ref_to(run), ended)
    port.settle_export(ref_to(run), ended.event_id, ExportState.DONE, None, None)
    assert state_of(database, run) == "pending", "its files are not exported"
    port.open_export(ref_to(run), files)
    assert state_of(database, run) == "pending"
    port.settle_export(ref_to(run), files.event_id, ExportState.FAILED, None, "no space left")
    assert state_of(database, run) == "failed"
    port.settle_export(ref_to(run), files.event_id, ExportState.DONE, "s3://bucket/x.zip", None)
    assert state_of(database, run) == "done"


def test_an_export_of_another_run_is_not_found(database: Database, make_run: MakeRun) -> None:
    mine, other, port = make_run(), make_run(), SqlStore(database).runs
    event = event_of(mine)
    port.open_export(ref_to(mine), event)
    with pytest.raises(NotFound):
        port.settle_export(ref_to(other), event.event_id, ExportState.DONE, None, None)
