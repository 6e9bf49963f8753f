"""Upkeep for the audit's schedule by every worker, and metrics about findings.

The metrics show a stopped audit by its growing age.
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
LOOK_PAUSE = 30.0
LOOKS_A_KEEPING = 20  # ten minutes


@dataclass(eq=False)
class AuditMetrics(Collector):
    every_seconds: int
    overview: AuditOverview | None = None
    since: datetime = field(default_factory=lambda: datetime.now(UTC))  # start for the age until the first audit

    def collect(self) -> Iterable[Metric]:
        last = self.overview.last_complete_at if self.overview else None
        age = (datetime.now(UTC) - (last or self.since)).total_seconds()
        yield GaugeMetricFamily("crawler_audit_age_seconds", "Since the last audit that was complete", value=age)
        every = "Period of the audit; 0: none"
        yield GaugeMetricFamily("crawler_audit_every_seconds", every, value=self.every_seconds)
        if self.overview:
            gauge = GaugeMetricFamily("crawler_audit_open_findings", "What disagrees, by kind", labels=["kind"])
            for kind in FindingKind:
                gauge.add_metric([kind], self.overview.open.get(kind, 0))
            yield gauge


@dataclass
class AuditKeeper:
    keep_schedule: Callable[[], Awaitable[None]]
    look: Callable[[], AuditOverview]
    metrics: AuditMetrics

    async def run(self, *, kept: bool = False) -> None:
        """Keep schedule and metrics up to date for ever. `kept`: the schedule exists already."""
        number = 0
        while True:
            if not kept or (number and number % LOOKS_A_KEEPING == 0):
                kept = await self.keep()
            await self._look()
            number += 1
            await asyncio.sleep(LOOK_PAUSE)

    async def keep(self) -> bool:
        """Return whether the schedule could be kept; a worker goes on working without the audit."""
        try:
            await self.keep_schedule()
        except LifecycleError as error:
            log.warning("the audit has no schedule yet: %s", error.message)
            return False
        return True

    async def _look(self) -> None:
        try:
            self.metrics.overview = await asyncio.to_thread(self.look)
        except LifecycleError as error:
            log.warning("the findings of audits cannot be read for the metrics: %s", error.message)
