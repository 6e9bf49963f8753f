"""The gauges of runs, and the counters of their starts, stops and ends."""

from datetime import UTC, datetime, timedelta
from typing import cast

import pytest
from prometheus_client import REGISTRY, CollectorRegistry
from sqlalchemy import update

from crawler_lifecycle.assembly import checks
from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.audits.commands import AuditCommands
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.schema import histories, task_histories
from crawler_lifecycle.errors import NotReady, TemporaryError
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.reasons import IMAGE_PULL, QUOTA, VOLUME
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.run_plan import RunRef
from crawler_lifecycle.model.states import ExportState, RunStatus, TaskStatus
from crawler_lifecycle.runs.ports import RunFigures
from crawler_lifecycle.runs.processes import metrics
from crawler_lifecycle.runs.processes.metrics import RunMetrics
from tests.kit.data.databases import MakeRun


def test_figures_are_of_open_runs_and_pending_exports(database: Database, make_run: MakeRun) -> None:
    store, now = SqlStore(database), datetime.now(UTC)
    runs = [make_run() for _ in range(5)]
    changes = [
        {"status": RunStatus.PROCESSING, "last_look_at": now - timedelta(hours=2)},
        {"held_by": "installation", "begun_at": now - timedelta(hours=3), "next_look_at": now - timedelta(minutes=5)},
        {"held_by": "crawler:books", "begun_at": now - timedelta(hours=9)},
        {"status": RunStatus.COMPLETED, "export_state": ExportState.PENDING, "finished_at": now - timedelta(hours=4)},
        {"status": RunStatus.FAILED, "export_state": ExportState.FAILED, "finished_at": now - timedelta(hours=9)},
    ]
    for run, values in zip(runs, changes, strict=True):
        _change(database, run, **values)
    store.limits.pause("crawler:books", "ann", "maintenance")
    registry = _metrics_of(store)
    assert registry.get_sample_value("crawler_runs_open", {"status": "PROCESSING"}) == 1
    assert registry.get_sample_value("crawler_runs_open", {"status": "INITIALIZING"}) == 2
    assert registry.get_sample_value("crawler_exports_pending") == 1
    assert registry.get_sample_value("crawler_exports_failed") == 1
    ages = {"oldest_in_line": 3, "oldest_look": 2, "look_delay": 1 / 12, "exports_pending": 4}
    for name, hours in ages.items():
        assert registry.get_sample_value(f"crawler_{name}_seconds") == pytest.approx(hours * 3600, abs=60)


def test_doctor_and_gauges_name_runs_that_cannot_start(database: Database, make_run: MakeRun) -> None:
    store = SqlStore(database)
    registry = _metrics_of(store)
    stuck, later, full = (make_run(entry=Crawler(name=name, command=["true"])) for name in ("shops", "news", "books"))
    for run, cause, message, minutes in (
        (stuck, IMAGE_PULL, "no such image", 2),
        (later, IMAGE_PULL, "no such image", 0),
        (full, QUOTA, "exceeded: pods", 60),
    ):
        since = datetime.now(UTC) - timedelta(minutes=minutes)
        _change(database, run, waiting_cause=cause, waiting_since=since, waiting_message=message)
    assert registry.get_sample_value("crawler_runs_obstructed", {"cause": "image_pull"}) == 1
    assert registry.get_sample_value("crawler_runs_obstructed", {"cause": "volume"}) == 0
    with pytest.raises(NotReady) as refused:
        _line_of_doctor(store)
    assert refused.value.message.startswith(
        f"1 run with a job that cannot start ({stuck.run_id}). The first, run {stuck.run_id} of crawler shops: "
        "image_pull: no such image"
    )
    _change(database, stuck, waiting_cause=None, waiting_since=None)
    assert _line_of_doctor(store) == (
        "every workflow makes progress, and no job is kept from its start; "
        f"1 run without room ({full.run_id}). The first, run {full.run_id} of crawler books: quota: exceeded: pods"
    )


def test_doctor_and_gauges_name_runs_whose_child_tasks_cannot_start(database: Database, make_run: MakeRun) -> None:
    """A missing image of a child task was logged only."""
    store = SqlStore(database)
    registry = _metrics_of(store)
    run, over = (make_run(tasks=4, entry=Crawler(name="shops", command=["true"])) for _ in range(2))
    _change(database, run, status=RunStatus.PROCESSING)
    _change(database, over, status=RunStatus.FAILED)
    for run_id, number, cause, minutes in (
        (run.run_id, 1, IMAGE_PULL, 0),
        (run.run_id, 2, IMAGE_PULL, 3),
        (run.run_id, 3, VOLUME, 2),
        (over.run_id, 1, IMAGE_PULL, 9),
    ):
        since = datetime.now(UTC) - timedelta(minutes=minutes)
        values = {"status": TaskStatus.PENDING, "cause": cause, "cause_since": since, "message": "no such image"}
        with database.transaction() as tx:
            tx.execute(update(task_histories).filter_by(history_id=run_id, task=number).values(values))
    assert registry.get_sample_value("crawler_runs_obstructed", {"cause": "image_pull"}) == 1
    assert registry.get_sample_value("crawler_runs_obstructed", {"cause": "volume"}) == 0
    with pytest.raises(NotReady) as refused:
        _line_of_doctor(store)
    assert refused.value.message == (
        f"1 run with a job that cannot start ({run.run_id}). The first, run {run.run_id} of crawler shops: image_pull: "
        "task 2: no such image (and 1 more)"
    )


def test_doctor_and_gauges_name_crawlers_that_fail_again_and_again(database: Database, make_run: MakeRun) -> None:
    """The other crawler has failed as often and works again; the third was stopped."""
    store = SqlStore(database)
    for name, ends in {
        "shops": ["all_succeeded", "main_job_failed", "tasks_failed", "main_job_failed"],
        "books": ["main_job_failed", "main_job_failed", "main_job_failed", "all_succeeded"],
        "news": ["main_job_failed", "main_job_failed", "stopped"],
    }.items():
        for reason in ends:
            run = make_run(entry=Crawler(name=name, command=["true"]))
            status = RunStatus.COMPLETED if reason == "all_succeeded" else RunStatus.FAILED
            _change(database, run, status=status, reason=reason, finished_at=datetime.now(UTC))
            if name == "shops":
                latest = run.run_id
    assert _metrics_of(store).get_sample_value("crawler_crawlers_failing") == 1
    line = _line_of_doctor(store)
    assert line.endswith(f"; the last 3 runs of crawler shops failed: see `crawlctl show {latest}`")
    _change(database, make_run(entry=Crawler(name="shops", command=["true"])), status=RunStatus.COMPLETED)
    assert _metrics_of(store).get_sample_value("crawler_crawlers_failing") == 0
    assert "shops" not in _line_of_doctor(store)


def test_a_scrape_soon_after_another_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []

    def read() -> RunFigures:
        reads.append(1)
        if len(reads) == 3:
            raise TemporaryError("the database does not answer")
        return metrics.NONE

    registry = CollectorRegistry()
    registry.register(RunMetrics(read))
    assert [registry.get_sample_value("crawler_exports_pending") for _ in range(2)] == [0, 0]
    assert len(reads) == 1
    monkeypatch.setattr(metrics, "REFRESH_SECONDS", 0.0)
    assert registry.get_sample_value("crawler_exports_pending") == 0
    assert registry.get_sample_value("crawler_exports_pending") is None, "old numbers would look like news"


def test_starts_stops_and_ends_are_counted_once(database: Database, make_run: MakeRun) -> None:
    store, run = SqlStore(database), make_run()
    ref = RunRef(run_id=run.run_id, run_uid=run.run_uid, epoch=run.epoch)
    names = ("crawler_run_start_seconds_count", "crawler_run_stop_seconds_count")
    before, ended = [_sample(name) for name in names], _ended()
    for _ in range(2):
        store.runs.mark_started(ref)
    store.runs.log_stop(ref, StopRequest(actor="ann"), datetime.now(UTC))
    with database.transaction() as tx:
        tx.execute(update(task_histories).values(status=TaskStatus.STOPPED))
    for _ in range(2):
        store.runs.close(ref, RunStatus.FAILED, "stopped")
    assert [_sample(name) - count for name, count in zip(names, before, strict=True)] == [1, 1]
    assert _ended() - ended == 1


def _ended() -> float:
    return REGISTRY.get_sample_value("crawler_runs_ended_total", {"status": "FAILED", "reason": "stopped"}) or 0.0


def _sample(name: str) -> float:
    return REGISTRY.get_sample_value(name) or 0.0


def _change(database: Database, run: RunRecord, **values: object) -> None:
    with database.transaction() as tx:
        tx.execute(update(histories).where(histories.c.id == run.run_id).values(values))


def _line_of_doctor(store: SqlStore) -> str:
    return checks._runs(store.records, cast("AuditCommands", store.findings))


def _metrics_of(store: SqlStore) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(RunMetrics(store.records.figures))
    return registry
