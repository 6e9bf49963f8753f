"""Metric with the number of flows in need of a host for their steps. `GET /v1/attention` counts the same flows."""

from collections.abc import Callable
from datetime import UTC, datetime

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

from crawler_lifecycle.flows.ports.records import FlowRecords
from crawler_lifecycle.flows.rules.words import HOST_PATIENCE
from crawler_lifecycle.metrics import FigureGauges


class NeedMetrics(FigureGauges[int]):
    def __init__(self, records: Callable[[], FlowRecords]) -> None:
        super().__init__("flows without a host", lambda: _without_host(records()), _gauges, 0)


def _without_host(records: FlowRecords) -> int:
    return records.without_host(datetime.now(UTC) - HOST_PATIENCE, limit=0)[0]


def _gauges(flows: int) -> list[Metric]:
    return [GaugeMetricFamily("crawler_flows_without_host", "Flows with a step that no host takes", value=flows)]
