"""Metrics of admission: runs queued for a permit, by cause, and the paused scopes."""

import logging
from collections.abc import Callable, Iterable, Sequence

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.model.limits import LimitRecord
from crawler_lifecycle.model.reasons import ADMISSION, PAUSED

log = logging.getLogger(__name__)


class LineMetrics(Collector):
    """Gauges from the limits at the time of the request; without an answer of the database there are no gauges."""

    def __init__(self, limits: Callable[[], Sequence[LimitRecord]]) -> None:
        self._limits = limits

    def describe(self) -> Iterable[Metric]:
        """Return the gauges without values, so that their registration does not wait for the database."""
        return _gauges(())

    def collect(self) -> Iterable[Metric]:
        try:
            return _gauges(self._limits())
        except LifecycleError as error:
            log.warning("no metrics of the line: %s", error.message)
            return ()


def _gauges(records: Sequence[LimitRecord]) -> list[Metric]:
    runs = GaugeMetricFamily("crawler_runs_in_line", "Runs that wait for their permit", labels=["cause"])
    runs.add_metric([PAUSED], sum(record.runs_held for record in records if record.paused_at))
    runs.add_metric([ADMISSION], sum(record.runs_held for record in records if not record.paused_at))
    paused = GaugeMetricFamily("crawler_paused_scopes", "Paused scopes: installation, crawlers and labels")
    paused.add_metric([], sum(record.paused_at is not None for record in records))
    return [runs, paused]
