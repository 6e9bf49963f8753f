"""Gauges for open runs, looks and pending exports, read from the database at most once in REFRESH_SECONDS."""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.runs.ports.records import RunFigures

log = logging.getLogger(__name__)
REFRESH_SECONDS = 15.0
NONE = RunFigures({}, None, None, None, 0, None, 0)


class RunMetrics(Collector):
    """Gauges from the latest figures. While the database does not answer, there are no gauges."""

    def __init__(self, figures: Callable[[], RunFigures]) -> None:
        self._read, self._figures, self._read_at = figures, NONE, -REFRESH_SECONDS
        self._reading = threading.Lock()

    def describe(self) -> Iterable[Metric]:
        """Return the gauges without values, so that their registration does not wait for the database."""
        return _gauges(NONE)

    def collect(self) -> Iterable[Metric]:
        try:
            with self._reading:  # two scrapes at once cost one read
                if time.monotonic() - self._read_at >= REFRESH_SECONDS:
                    self._figures, self._read_at = self._read(), time.monotonic()
                return _gauges(self._figures)
        except LifecycleError as error:
            log.warning("no metrics of runs: %s", error.message)
            return ()


def _gauges(figures: RunFigures) -> list[Metric]:
    open_runs = GaugeMetricFamily("crawler_runs_open", "Open runs, by status", labels=["status"])
    for status, count in figures.open.items():
        open_runs.add_metric([status], count)
    pending = "crawler_exports_pending"
    return [
        open_runs,
        _age(
            "crawler_oldest_in_line_seconds", "Age of the oldest run in line that is not paused", figures.queued_since
        ),
        _age("crawler_oldest_look_seconds", "Time since the oldest last look at an open run", figures.looked_at),
        _age("crawler_look_delay_seconds", "Time by which the latest look is overdue", figures.look_due_at),
        GaugeMetricFamily(pending, "Ended runs with a pending event or archive", value=figures.pending_exports),
        _age(f"{pending}_seconds", "Age of the oldest pending event or archive", figures.export_pending_since),
        GaugeMetricFamily(
            "crawler_exports_failed", "Ended runs whose event or archive gave up", value=figures.failed_exports
        ),
    ]


def _age(name: str, documentation: str, since: datetime | None) -> Metric:
    """Return a gauge with the seconds since then; 0 without a time, and for a time in the future."""
    seconds = 0.0 if since is None else max(0.0, (datetime.now(UTC) - since).total_seconds())
    return GaugeMetricFamily(name, documentation, value=seconds)
