"""The reference of the metrics, made from the metrics that the processes register."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.metrics import MetricWrapperBase

from crawler_lifecycle import metrics
from crawler_lifecycle.assembly.failing_workflows import FailingWorkflows
from crawler_lifecycle.audits.processes import AuditMetrics
from crawler_lifecycle.clusters.processes import SchedulerService
from crawler_lifecycle.flows.processes.metrics import FlowMetrics, NeedMetrics
from crawler_lifecycle.hosts.slots import Slots
from crawler_lifecycle.http.health import ProcessHealth, Pulse
from crawler_lifecycle.http.middleware import Metrics
from crawler_lifecycle.model.audits import AuditOverview
from crawler_lifecycle.runs.processes.metrics import LineMetrics, RunMetrics
from crawler_lifecycle.schedules.processes import LateStartMetrics
from crawler_lifecycle.settings.processes import HealthSettings
from crawler_lifecycle.triggers.bridge import TriggerMetrics

ABOVE = """# Metrics

Worker, dispatcher, watcher, hosts of steps and trigger processes serve `/metrics` on their health port, the scheduler
service and the HTTP API on their own. No label has an unbounded number of values: none names a run, a crawler or an
address. Temporal's SDK serves its metrics, with those in the last table, on the worker's port 8081.

`python docs/generate_metrics.py` generates this page from the program; a test compares the two.
"""
ON_WORKERS = (
    ("crawler_saturated_looks", "counter", "cause, cluster", "Looks at runs that have been waiting for room"),
    (
        "crawler_cluster_clock_difference_seconds",
        "gauge",
        "cluster",
        "Distance between our clock and the cluster's clock",
    ),
)
HEAD = "| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n"


def page() -> str:
    tables = [f"\n## {title}\n\n{HEAD}{_rows(families)}" for title, families in _groups().items()]
    rows = "".join(f"| `{name}` | {kind} | {labels} | {text} |\n" for name, kind, labels, text in ON_WORKERS)
    return ABOVE + "".join(tables) + f"\n## Worker, on the port of Temporal's SDK\n\n{HEAD}{rows}"


def _groups() -> dict[str, Iterable[Metric]]:
    """Return the metrics by process. No part here has a database or a cluster."""
    nothing = cast("Any", None)
    api, failing, starts = Metrics(), CollectorRegistry(), CollectorRegistry()
    LateStartMetrics(nothing, starts)
    FailingWorkflows(nothing, nothing, nothing, failing)
    overview = AuditOverview(audits=[], last_complete_at=datetime.now(UTC), open={}, open_since={}, findings=[])
    health = ProcessHealth(HealthSettings(), Pulse(), {})
    scheduler = SchedulerService(nothing, nothing).metrics
    LABELS.update(_labels_in(api.registry) | _labels_in(scheduler))
    return {
        "All processes": [family for declared in _declared() for family in declared.collect()],
        "Processes with a health port": health.collect(),
        "Worker": [*AuditMetrics(600, overview).collect(), *failing.collect()],
        "Dispatcher": [
            *LineMetrics(nothing).describe(),
            *RunMetrics(nothing).describe(),
            *FlowMetrics(nothing).describe(),
            *NeedMetrics(nothing).describe(),
        ],
        "Watcher": starts.collect(),
        "Scheduler service": scheduler.collect(),
        "HTTP API": api.registry.collect(),
        "Host of steps": [*Slots(1, "step").collect(), *Slots(1, "manager").collect()],
        "Trigger process": TriggerMetrics().collect(),
    }


def _declared() -> list[MetricWrapperBase]:
    return [value for value in vars(metrics).values() if isinstance(value, MetricWrapperBase)]


def _labels_in(registry: CollectorRegistry) -> dict[str, Sequence[str]]:
    collectors = registry._names_to_collectors.values()
    return {each._name: each._labelnames for each in collectors if isinstance(each, MetricWrapperBase)}


LABELS: dict[str, Sequence[str]] = {declared._name: declared._labelnames for declared in _declared()}


def _rows(families: Iterable[Metric]) -> str:
    return "".join(map(_row, families))


def _row(family: Metric) -> str:
    suffix = "_total" if family.type == "counter" else ""
    labels = ", ".join(LABELS.get(family.name, ()) or _labels(family))
    return f"| `{family.name}{suffix}` | {family.type} | {labels} | {family.documentation} |\n"


def _labels(family: Metric) -> list[str]:
    of_samples = {label for sample in family.samples for label in sample.labels} - {"le"}
    return list(getattr(family, "_labelnames", ())) or sorted(of_samples)
