"""The gauges of runs in line."""

from datetime import UTC, datetime

from prometheus_client import CollectorRegistry

from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.model.limits import LimitRecord
from crawler_lifecycle.runs.processes.metrics import LineMetrics

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def test_runs_in_line_are_counted_by_cause() -> None:
    registry = CollectorRegistry()
    records = [
        LimitRecord(scope="installation", runs_held=2),
        LimitRecord(scope="crawler:books", runs_held=3, paused_at=NOON),
        LimitRecord(scope="label:a:b", runs_held=4),
    ]
    registry.register(LineMetrics(lambda: records))
    assert registry.get_sample_value("crawler_runs_in_line", {"cause": "admission"}) == 6
    assert registry.get_sample_value("crawler_runs_in_line", {"cause": "paused"}) == 3
    assert registry.get_sample_value("crawler_paused_scopes") == 1


def test_without_the_database_there_are_the_other_metrics() -> None:
    """Also at the start: a dispatcher that begins in an outage of its database has to begin."""
    registry = CollectorRegistry()

    def away() -> list[LimitRecord]:
        raise TemporaryError("the database does not answer")

    registry.register(LineMetrics(away))
    assert registry.get_sample_value("crawler_runs_in_line", {"cause": "paused"}) is None
