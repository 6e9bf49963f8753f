"""The gauges of flows."""

from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry

from crawler_lifecycle.assembly import checks
from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import NotReady, TemporaryError
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.ports.records import FlowFigures
from crawler_lifecycle.flows.processes import metrics
from crawler_lifecycle.flows.processes.metrics import FlowMetrics, NeedMetrics
from tests.kit.authors.work import plain
from tests.kit.data.flows import failing, pushed


def test_flows_and_members_are_counted_by_state(database: Database) -> None:
    failing(database, "ended")
    flow = pushed(database, Workflow(id="w").add("a", plain).add("b", plain, deps="a"))
    registry = CollectorRegistry()
    registry.register(FlowMetrics(flow.store.flow_records.figures))
    counts = {state: registry.get_sample_value("crawler_flows", {"state": state}) for state in ("executing", "paused")}
    assert counts == {"executing": 1, "paused": 0}
    assert registry.get_sample_value("crawler_flows", {"state": "discarded"}) == 1
    assert registry.get_sample_value("crawler_flow_members", {"state": "suspended"}) == 1
    assert registry.get_sample_value("crawler_flow_members", {"state": "completed"}) == 0  # of the ended flow


def test_the_silence_is_that_of_the_quietest_executing_flow() -> None:
    registry = CollectorRegistry()
    since = datetime.now(UTC) - timedelta(hours=1)
    registry.register(FlowMetrics(lambda: FlowFigures({}, {}, since)))
    assert 3600 <= (registry.get_sample_value("crawler_flow_silence_seconds") or 0) < 3660


def test_flows_whose_steps_no_host_takes_are_counted_and_named(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "HOST_PATIENCE", timedelta(0))
    monkeypatch.setattr(checks, "LONG_WAIT", timedelta(0))
    registry = CollectorRegistry()
    records = SqlStore(database).flow_records
    registry.register(NeedMetrics(lambda: records))
    assert registry.get_sample_value("crawler_flows_without_host") == 0
    assert checks._hosts(records) == "no flow waits for a host of steps"
    pushed(database, Workflow(id="w").add("a", plain))
    assert registry.get_sample_value("crawler_flows_without_host") == 1
    with pytest.raises(NotReady, match=r"the steps of 1 flow \(w\): start `crawlctl host MODULE`"):
        checks._hosts(records)


def test_without_the_database_there_are_no_gauges() -> None:
    registry = CollectorRegistry()

    def away() -> FlowFigures:
        raise TemporaryError("the database does not answer")

    registry.register(FlowMetrics(away))
    assert registry.get_sample_value("crawler_flows", {"state": "executing"}) is None
