"""The gauges of flows."""

from datetime import UTC, datetime, timedelta

from prometheus_client import CollectorRegistry

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.ports.records import FlowFigures
from crawler_lifecycle.flows.processes.metrics import FlowMetrics
from tests.contracts.flows import failing, pushed
from tests.unit.flows.work import plain


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


def test_without_the_database_there_are_no_gauges() -> None:
    registry = CollectorRegistry()

    def away() -> FlowFigures:
        raise TemporaryError("the database does not answer")

    registry.register(FlowMetrics(away))
    assert registry.get_sample_value("crawler_flows", {"state": "executing"}) is None
