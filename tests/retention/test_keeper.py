"""The loop of a worker: it is on without a setting, makes a pass when one is due, and reports sizes and ages."""

import threading
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client.registry import CollectorRegistry

from crawler_lifecycle.assembly.parts import Parts
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.model.states import ExportState
from crawler_lifecycle.retention.keeper import RetentionKeeper, RetentionMetrics, retention_of
from crawler_lifecycle.settings import configuration
from tests.retention.old_runs import LONG_AGO, NOW, Old, ids, retention

DAY = timedelta(days=1)


def test_retention_is_on_without_a_setting(database: Database, tmp_path: Path) -> None:
    url = database.engine.url.render_as_string(hide_password=False)
    settings = configuration.load(state=tmp_path, database={"url": url})
    kept = {"runs": 365 * DAY, "flows": 365 * DAY, "logs": 30 * DAY, "archives": None, "lines": 30 * DAY}
    assert (settings.retention.ages, settings.retention.every_seconds) == (kept, 3600)
    with closing(Parts(settings)) as parts:
        folders = retention_of(parts, "me").folders
    assert folders.jobs == tmp_path / "cluster" / "jobs", "the local cluster's records leave with their run"
    assert (folders.files, folders.exports) == (tmp_path / "files", tmp_path / "exports")


@pytest.fixture
def keeper(database: Database, tmp_path: Path) -> RetentionKeeper:
    return RetentionKeeper(retention(database, tmp_path), RetentionMetrics(every_seconds=3600))


def metrics(keeper: RetentionKeeper) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(keeper.metrics)
    return registry


def test_a_pass_is_made_when_it_is_due(
    database: Database, keeper: RetentionKeeper, old: Old, caplog: pytest.LogCaptureFixture
) -> None:
    first = old()
    with caplog.at_level("INFO"):
        keeper.make_due_pass(threading.Event())
    assert "removed what is old: 1 runs" in caplog.text
    assert "not everything" not in caplog.text
    assert ids(database) == []
    second = old()
    assert second.run_id > first.run_id, "no RunID is used again"
    keeper.make_due_pass(threading.Event())
    assert ids(database) == [second.run_id], "the last pass ended a moment ago"
    RetentionKeeper(keeper.retention, RetentionMetrics(every_seconds=0)).make_due_pass(threading.Event())
    assert ids(database) == [second.run_id], "a period of 0 switches the loop off"


def test_sizes_and_ages_are_metrics(database: Database, keeper: RetentionKeeper, old: Old) -> None:
    old(export_state=ExportState.FAILED)
    keeper.make_due_pass(threading.Event())
    value = metrics(keeper).get_sample_value
    table = "all" if database.engine.dialect.name == "sqlite" else histories.name
    assert (value("crawler_database_bytes", {"table": table}) or 0) > 1000
    assert value("crawler_oldest_run_age_seconds") == pytest.approx(
        (NOW - LONG_AGO).total_seconds(), abs=7200
    )  # `NOW` is when the module was read
    assert value("crawler_retention_held_runs", {"cause": "export"}) == 1
    assert value("crawler_retention_every_seconds") == 3600
    assert 0 <= (value("crawler_retention_age_seconds") or 0) < 60
