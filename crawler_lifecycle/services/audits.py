"""Keeps the audit's schedule in Temporal, and keeps metrics about audits. Every worker does both.

The metrics show an audit that does not run any more by its growing age.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from crawler_lifecycle.contract.audits import AuditOverview, FindingKind
from crawler_lifecycle.errors import LifecycleError

log = logging.getLogger(__name__)
UPDATE_PAUSE = 30.0  # seconds between two updates of the metrics
UPDATES_PER_KEEP = 20  # the schedule is kept every ten minutes


@dataclass(eq=False)
class AuditMetrics(Collector):
    every_seconds: int
    overview: AuditOverview | None = None
    since: datetime = field(default_factory=lambda: datetime.now(UTC))  # the age counts from here until the first audit

    def collect(self) -> Iterable[Metric]:
        last = self.overview.last_complete_at if self.overview else None
        age = (datetime.now(UTC) - (last or self.since)).total_seconds()
        yield GaugeMetricFamily("crawler_audit_age_seconds", "Since the last audit that was complete", value=age)
        every = "Period of the audit; 0: none"
        yield GaugeMetricFamily("crawler_audit_every_seconds", every, value=self.every_seconds)
        if self.overview:
            gauge = GaugeMetricFamily("crawler_audit_open_findings", "Open findings, by kind", labels=["kind"])
            for kind in FindingKind:
                gauge.add_metric([kind], self.overview.open.get(kind, 0))
            yield gauge


@dataclass
class AuditKeeper:
    keep_schedule: Callable[[], Awaitable[None]]
    read_overview: Callable[[], AuditOverview]
    metrics: AuditMetrics

    async def run(self, *, kept: bool = False) -> None:
        """Keep schedule and metrics up to date for ever. `kept`: the schedule exists already."""
        updates = 0
        while True:
            if not kept or (updates and updates % UPDATES_PER_KEEP == 0):
                kept = await self.try_to_keep()
            await self._update_metrics()
            updates += 1
            await asyncio.sleep(UPDATE_PAUSE)

    async def try_to_keep(self) -> bool:
        """Make or change the schedule. Return whether that succeeded; a worker works without the audit, too."""
        try:
            await self.keep_schedule()
        except LifecycleError as error:
            log.warning("the audit has no schedule yet: %s", error.message)
            return False
        return True

    async def _update_metrics(self) -> None:
        try:
            self.metrics.overview = await asyncio.to_thread(self.read_overview)
        except LifecycleError as error:
            log.warning("the findings of audits cannot be read for the metrics: %s", error.message)
