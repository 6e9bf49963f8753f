"""All old things leave, once, and nothing else does."""

import threading
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest
from sqlalchemy import func, select, update

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.clusters.ports import Cluster
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.flow_schema import flows
from crawler_lifecycle.database.schema import (
    audit_findings,
    exports,
    histories,
    history_logs,
    installation,
    removed_runs,
    task_histories,
)
from crawler_lifecycle.errors import NotFound, Removed, TemporaryError
from crawler_lifecycle.flows.ports.ledger import Delivery
from crawler_lifecycle.model.states import ExportKind, ExportState, RunStatus
from crawler_lifecycle.retention.model import KeepReason, Kind, PassReport
from crawler_lifecycle.retention.passes import Retention
from crawler_lifecycle.retention.rules import hold_of
from crawler_lifecycle.retention.store import ARCHIVED, CHILDREN, RetentionStore
from tests.kit.data.databases import MakeRun
from tests.kit.data.flows import failing
from tests.retention.old_runs import CUTOFF, LONG_AGO, NOW, Old, ids, open_finding, passed, retention


def test_an_old_run_leaves_with_all_its_rows_and_is_answered_with_the_date(
    database: Database, old: Old, make_run: MakeRun, tmp_path: Path
) -> None:
    gone, young = old(3), make_run()
    assert passed(retention(database, tmp_path)).removed == {Kind.RUNS: 1}
    assert ids(database) == [young.run_id]
    with database.read() as connection:
        rows = [connection.scalar(select(func.count()).where(table.c.history_id == gone.run_id)) for table in CHILDREN]
    assert rows == [0] * len(CHILDREN)
    records = SqlStore(database).records
    for read in (lambda: records.overview(gone.run_id), lambda: records.run_id(gone.run_uid)):
        with pytest.raises(Removed, match=f"removed by retention on {datetime.now(UTC).date()}"):
            read()
    with pytest.raises(NotFound) as unknown:
        records.overview(young.run_id + 100)
    assert type(unknown.value) is NotFound, "a RunID that never existed was not removed"
    assert passed(retention(database, tmp_path)).removed == {}, "a second pass finds nothing"


def test_every_table_of_a_run_is_emptied(database: Database) -> None:
    refers = {table.name for table in histories.metadata.tables.values() if "history_id" in table.c}
    assert refers - {audit_findings.name} == {table.name for table in CHILDREN}


@pytest.mark.parametrize("status", [status for status in RunStatus if not status.is_over])
def test_an_open_run_stays_however_old(database: Database, old: Old, tmp_path: Path, status: RunStatus) -> None:
    run = old(status=status, finished_at=None)
    assert passed(retention(database, tmp_path)).removed == {}
    assert ids(database) == [run.run_id]


@pytest.mark.parametrize(
    ("foreign", "owes", "is_found", "job"),
    list(product((False, True), repeat=4)),
    ids=lambda value: str(int(value)),
)
def test_each_cause_keeps_a_run(
    database: Database, old: Old, tmp_path: Path, foreign: bool, owes: bool, is_found: bool, job: bool
) -> None:
    values: dict[str, Any] = {"installation": str(uuid4())} if foreign else {}
    run = old(**values, **({"export_state": ExportState.FAILED} if owes else {}))
    if is_found:
        open_finding(database, run)
    job_of = (run.run_uid,) if job else ()
    store = RetentionStore(database)
    (seen,) = store.window(0, store.bound(CUTOFF), CUTOFF)
    hold = hold_of(seen, job_of)
    assert (hold is None) == (not (foreign or owes or is_found or job))
    report = passed(retention(database, tmp_path, jobs=job_of))
    assert (report.removed, report.held) == (({Kind.RUNS: 1}, {}) if hold is None else ({}, {hold: 1}))
    # the deletion itself repeats every condition of the database
    if foreign or owes or is_found:
        assert store.remove([run.run_id], CUTOFF) == []
        assert ids(database) == [run.run_id]


def test_a_run_that_is_reopened_after_it_was_chosen_stays(database: Database, old: Old) -> None:
    run, store = old(), RetentionStore(database)
    chosen = store.window(0, store.bound(CUTOFF), CUTOFF)
    with database.transaction() as tx:
        tx.execute(update(histories).values(status=RunStatus.PROCESSING, finished_at=None))
    assert store.remove([each.run_id for each in chosen], CUTOFF) == []
    assert ids(database) == [run.run_id]


def test_no_run_leaves_while_the_cluster_cannot_list_its_jobs(database: Database, old: Old, tmp_path: Path) -> None:
    run, job = old(), retention(database, tmp_path)

    def away() -> Any:
        raise TemporaryError("the cluster is away")

    job = Retention(**{**vars(job), "cluster": lambda: cast("Cluster", SimpleNamespace(inventory=away))})
    report = passed(job)
    assert (report.removed, report.problem) == ({}, "the cluster is away")
    assert ids(database) == [run.run_id]
    assert job.store.last().finished_at is None, "a pass with a problem does not count"


class Killed(BaseException):
    """The process dies here."""


@pytest.mark.parametrize("step", range(len(CHILDREN) + 4))
def test_a_kill_at_each_statement_leaves_whole_runs(database: Database, old: Old, tmp_path: Path, step: int) -> None:
    """The removal of a run is one transaction: a kill before any of its statements changes nothing."""
    from sqlalchemy import event

    run, statements = old(2), [0]

    def die(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if "removed_runs" in statement or statement.startswith("DELETE") or "FOR UPDATE" in statement:
            statements[0] += 1
            if statements[0] > step:
                raise Killed

    event.listen(database.engine, "before_cursor_execute", die)
    store, killed = RetentionStore(database), False
    try:
        store.remove([run.run_id], CUTOFF)
    except Killed:
        killed = True
    finally:
        event.remove(database.engine, "before_cursor_execute", die)
    with database.read() as connection:
        rows_left = [
            connection.scalar(select(func.count()).select_from(t)) for t in (histories, task_histories, exports)
        ]
        gone = connection.scalar(select(func.count()).select_from(removed_runs))
        lines = connection.scalar(select(func.count()).select_from(history_logs))
    if killed:
        assert (rows_left, gone, bool(lines)) == ([1, 2, 1], 0, True)
        assert passed(retention(database, tmp_path)).removed == {Kind.RUNS: 1}
    assert ids(database) == []


def test_a_pass_that_died_between_rows_and_files_is_finished_by_the_next(
    database: Database, old: Old, tmp_path: Path
) -> None:
    run, other = old(), old(export_state=ExportState.PENDING)
    for uid, parent in product((run.run_uid, other.run_uid), ("files", "jobs")):
        (tmp_path / parent / uid).mkdir(parents=True)
        (tmp_path / parent / uid / "a").write_bytes(b"12345")
    RetentionStore(database).remove([run.run_id], CUTOFF)  # and then a kill
    report = passed(retention(database, tmp_path))
    assert (report.removed[Kind.FOLDERS], report.bytes[Kind.FOLDERS]) == (2, 10)
    assert [path.name for path in sorted(tmp_path.glob("*/*"))] == [other.run_uid] * 2


def test_one_worker_at_a_time_makes_a_pass(database: Database, old: Old, tmp_path: Path) -> None:
    old()
    store = RetentionStore(database)
    assert store.claim("other", timedelta(minutes=2))
    assert not store.claim("third", timedelta(minutes=2))
    assert retention(database, tmp_path).make_pass(threading.Event()) is None
    assert store.claim("other", timedelta(seconds=-1)), "the holder prolongs its claim"
    assert passed(retention(database, tmp_path)).removed == {Kind.RUNS: 1}, "a claim without a sign of life has ended"
    store.finish("other", PassReport(began_at=NOW, problem="late"))
    last = store.last()
    assert last.report is not None
    assert last.report.problem is None, "the former holder writes nothing"


def test_a_survey_changes_nothing_and_says_what_a_pass_removes(database: Database, old: Old, tmp_path: Path) -> None:
    runs = [old(), old(export_state=ExportState.FAILED)]
    surveyed = retention(database, tmp_path).survey()
    assert (surveyed.removed, surveyed.held) == ({Kind.RUNS: 1}, {KeepReason.EXPORT: 1})
    assert ids(database) == [run.run_id for run in runs]
    assert passed(retention(database, tmp_path)).removed[Kind.RUNS] == surveyed.removed[Kind.RUNS]


def test_a_flow_leaves_a_year_after_its_end_once_its_end_is_delivered(database: Database, tmp_path: Path) -> None:
    flow = failing(database, "shops")
    store = RetentionStore(database)
    assert store.old_flows(datetime.now(UTC), 9) == [], "its end is still to be announced"
    flow.store.flow_ends.settle(flow.uid, 1, list(Delivery), {})
    assert passed(retention(database, tmp_path)).removed == {}, "the flow is young"
    with database.transaction() as tx:
        tx.execute(update(flows).values(stopped_at=LONG_AGO))
    assert flow.store.flow_doors.prune([flow.uid], ended_before=LONG_AGO) == 0, "it has ended again since"
    assert passed(retention(database, tmp_path)).removed == {Kind.FLOWS: 1}
    assert flow.store.flow_records.page(limit=9) == []


def test_logs_leave_after_a_month_if_an_archive_has_them(database: Database, old: Old, tmp_path: Path) -> None:
    month_ago = NOW - timedelta(days=40)
    archived, bare = (old(finished_at=month_ago, created_at=month_ago) for _ in range(2))
    with database.transaction() as tx:
        tx.execute(update(exports).values(created_at=month_ago))
        is_archive = exports.c.history_id == archived.run_id
        tx.execute(update(exports).where(is_archive).values(kind=ExportKind.FILES_READY))
    for run in (archived, bare):
        (tmp_path / "files" / run.run_uid / "logs").mkdir(parents=True)
        (tmp_path / "files" / run.run_uid / "logs" / "0-1.log").write_bytes(b"line")
        (tmp_path / "files" / run.run_uid / "items.json").touch()
    report = passed(retention(database, tmp_path))
    assert (report.removed, report.bytes) == ({Kind.LOGS: 1}, {Kind.LOGS: 4})
    rows_left = sorted(
        str(path.relative_to(tmp_path / "files")) for path in tmp_path.glob("files/**/*") if path.is_file()
    )
    assert rows_left == sorted(
        [f"{archived.run_uid}/items.json", f"{bare.run_uid}/items.json", f"{bare.run_uid}/logs/0-1.log"]
    )
    assert passed(retention(database, tmp_path)).removed == {}


def test_no_log_is_left_out_where_a_page_ends_between_archives_of_the_same_moment(
    database: Database, old: Old, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler_lifecycle.retention.store.ARCHIVED", ARCHIVED.limit(2))
    month_ago = NOW - timedelta(days=40)
    runs = [old(finished_at=month_ago, created_at=month_ago) for _ in range(5)]
    with database.transaction() as tx:
        tx.execute(update(exports).values(created_at=month_ago, kind=ExportKind.FILES_READY))
    for run in runs:
        (tmp_path / "files" / run.run_uid / "logs").mkdir(parents=True)
    assert passed(retention(database, tmp_path)).removed == {Kind.LOGS: 5}
    # an archive of the same moment, delivered after the pass
    late = old(finished_at=month_ago, created_at=month_ago)
    with database.transaction() as tx:
        tx.execute(update(exports).values(created_at=month_ago, kind=ExportKind.FILES_READY))
    (tmp_path / "files" / late.run_uid / "logs").mkdir(parents=True)
    assert passed(retention(database, tmp_path)).removed == {Kind.LOGS: 1}


def test_a_link_in_place_of_a_folder_leads_nowhere(database: Database, old: Old, tmp_path: Path) -> None:
    run = old()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "precious").touch()
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / run.run_uid).symlink_to(tmp_path / "elsewhere")
    report = passed(retention(database, tmp_path))
    assert (report.removed[Kind.RUNS], report.problem is None) == (1, False)
    assert (tmp_path / "elsewhere" / "precious").exists()


def test_a_run_of_another_installation_keeps_its_row(database: Database, old: Old, tmp_path: Path) -> None:
    run = old()
    with database.transaction() as tx:
        tx.execute(update(installation).values(uid=str(uuid4())))
    assert passed(retention(database, tmp_path)).held == {KeepReason.FOREIGN: 1}
    assert ids(database) == [run.run_id]
