"""Metrics of runs, which the dispatcher's process reads from the database and serves.

`LineMetrics` has runs queued for a permit and paused scopes, `RunMetrics` has open runs, looks and pending exports.
"""

import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

from crawler_lifecycle.metrics import FigureGauges
from crawler_lifecycle.model.limits import LimitRecord
from crawler_lifecycle.model.reasons import ADMISSION, PAUSED
from crawler_lifecycle.runs.ports import RunFigures

REFRESH_SECONDS = 15.0  # the figures of runs are read at most once in this time
NONE = RunFigures({}, None, None, None, 0, None, 0, {}, 0)  # before the first read


class LineMetrics(FigureGauges[Sequence[LimitRecord]]):
    def __init__(self, limits: Callable[[], Sequence[LimitRecord]]) -> None:
        super().__init__("the line", limits, _gauges_of_line, ())


class RunMetrics(FigureGauges[RunFigures]):
    def __init__(self, figures: Callable[[], RunFigures]) -> None:
        super().__init__("runs", self._latest, _gauges_of_runs, NONE)
        self._figures, self._latest_figures, self._read_at = figures, NONE, -REFRESH_SECONDS
        self._reading = threading.Lock()

    def _latest(self) -> RunFigures:
        with self._reading:  # two scrapes at once cost one read
            if time.monotonic() - self._read_at >= REFRESH_SECONDS:
                self._latest_figures, self._read_at = self._figures(), time.monotonic()
            return self._latest_figures


def _gauges_of_line(records: Sequence[LimitRecord]) -> list[Metric]:
    runs = GaugeMetricFamily("crawler_runs_in_line", "Runs that wait for their permit", labels=["cause"])
    runs.add_metric([PAUSED], sum(record.runs_held for record in records if record.paused_at))
    runs.add_metric([ADMISSION], sum(record.runs_held for record in records if not record.paused_at))
    paused = GaugeMetricFamily("crawler_paused_scopes", "Paused scopes: installation, crawlers and labels")
    paused.add_metric([], sum(record.paused_at is not None for record in records))
    return [runs, paused]


def _gauges_of_runs(figures: RunFigures) -> list[Metric]:
    open_runs = GaugeMetricFamily("crawler_runs_open", "Open runs, by status", labels=["status"])
    for status, count in figures.open.items():
        open_runs.add_metric([status], count)
    obstructed = GaugeMetricFamily(
        "crawler_runs_obstructed", "Open runs with a job that is kept from its start, by cause", labels=["cause"]
    )
    for cause, count in figures.obstructed.items():
        obstructed.add_metric([cause], count)
    pending = "crawler_exports_pending"
    return [
        open_runs,
        obstructed,
        GaugeMetricFamily(
            "crawler_crawlers_failing",
            "Crawlers whose last three ends failed, with a failed run of the last day",
            value=figures.failing_crawlers,
        ),
        _age(
            "crawler_oldest_in_line_seconds", "Age of the oldest run in line that is not paused", figures.queued_since
        ),
        _age("crawler_oldest_look_seconds", "Time since the oldest last look at an open run", figures.looked_at),
        _age("crawler_look_delay_seconds", "Time by which the latest look is overdue", figures.look_due_at),
        GaugeMetricFamily(pending, "Ended runs with a pending event or archive", value=figures.pending_exports),
        _age(f"{pending}_seconds", "Age of the oldest pending event or archive", figures.export_pending_since),
        GaugeMetricFamily(
            "crawler_exports_failed",
            "Ended runs whose last try to announce or archive failed",
            value=figures.failed_exports,
        ),
    ]


def _age(name: str, documentation: str, since: datetime | None) -> Metric:
    """Return a gauge with the seconds since then; 0 without a time, and for a time in the future."""
    seconds = 0.0 if since is None else max(0.0, (datetime.now(UTC) - since).total_seconds())
    return GaugeMetricFamily(name, documentation, value=seconds)
