"""Metrics of flows: flows by state, members of open flows by state, the longest silence of an executing flow, and flows
in need of a host for their steps.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

from crawler_lifecycle.flows.ports.records import FlowFigures, FlowRecords
from crawler_lifecycle.flows.rules.words import HOST_PATIENCE
from crawler_lifecycle.metrics import FigureGauges
from crawler_lifecycle.model.flow_states import FlowState, MemberState

NONE = FlowFigures({}, {}, None)


class FlowMetrics(FigureGauges[FlowFigures]):
    def __init__(self, figures: Callable[[], FlowFigures]) -> None:
        super().__init__("flows", figures, _gauges, NONE)


def _gauges(figures: FlowFigures) -> list[Metric]:
    """Return the gauges. Each state has a value, so that a state without flows is seen as 0."""
    states = [state for state in FlowState if state is not FlowState.UNKNOWN]
    silence = GaugeMetricFamily(
        "crawler_flow_silence_seconds", "Longest time without a change among the executing flows"
    )
    since = figures.silent_since
    silence.add_metric([], 0.0 if since is None else max(0.0, (datetime.now(UTC) - since).total_seconds()))
    return [
        _by_state("crawler_flows", "Stored flows", {state: figures.flows.get(state, 0) for state in states}),
        _by_state(
            "crawler_flow_members",
            "Members of open flows",
            {state: figures.members.get(state, 0) for state in MemberState},
        ),
        silence,
    ]


def _by_state(name: str, documentation: str, counts: Mapping[str, int]) -> Metric:
    gauge = GaugeMetricFamily(name, documentation, labels=["state"])
    for state, count in counts.items():
        gauge.add_metric([str(state)], count)
    return gauge


class NeedMetrics(FigureGauges[int]):
    """`GET /v1/attention` counts the same flows."""

    def __init__(self, records: Callable[[], FlowRecords]) -> None:
        super().__init__("flows without a host", lambda: _without_host(records()), _need_gauges, 0)


def _without_host(records: FlowRecords) -> int:
    return records.without_host(datetime.now(UTC) - HOST_PATIENCE, limit=0)[0]


def _need_gauges(flows: int) -> list[Metric]:
    return [GaugeMetricFamily("crawler_flows_without_host", "Flows with a step that no host takes", value=flows)]
