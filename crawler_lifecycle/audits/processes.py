"""Keep the audit's schedule in Temporal up to date, and the metrics about audits.

Every worker does both, so that an installation with a worker has an audit. If no audit is completed any more, the age
of the last complete audit grows in the metrics.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.model.audits import AuditOverview, FindingKind

log = logging.getLogger(__name__)
UPDATE_PAUSE = 30.0  # seconds between two updates of the metrics
UPDATES_PER_KEEP = 20  # updates between two checks of the schedule: ten minutes


@dataclass(eq=False)
class AuditMetrics(Collector):
    """Metrics about audits; the age of the last complete audit is computed at every request for metrics."""

    every_seconds: int
    overview: AuditOverview | None = None  # None: not read yet
    # until the first complete audit, the age counts from the start of the process
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def collect(self) -> Iterable[Metric]:
        last = self.overview.last_complete_at if self.overview else None
        age = (datetime.now(UTC) - (last or self.started_at)).total_seconds()
        yield GaugeMetricFamily("crawler_audit_age_seconds", "Since the last audit that was complete", value=age)
        period = "Period of the audit; 0: none"
        yield GaugeMetricFamily("crawler_audit_every_seconds", period, value=self.every_seconds)
        if self.overview:
            gauge = GaugeMetricFamily("crawler_audit_open_findings", "Open findings, by kind", labels=["kind"])
            for kind in FindingKind:
                gauge.add_metric([kind], self.overview.open.get(kind, 0))
            yield gauge
            ages = GaugeMetricFamily(
                "crawler_audit_finding_age_seconds", "Age of the oldest open finding, by kind", labels=["kind"]
            )
            for kind in FindingKind:
                since = self.overview.open_since.get(kind)
                ages.add_metric([kind], (datetime.now(UTC) - since).total_seconds() if since else 0.0)
            yield ages


@dataclass
class AuditKeeper:
    """Loop that keeps the audit's schedule in Temporal, and the metrics about audits."""

    keep_schedule: Callable[[], Awaitable[None]]
    read_overview: Callable[[], AuditOverview]
    metrics: AuditMetrics

    async def run(self, *, has_schedule: bool = False) -> None:
        """Keep schedule and metrics up to date indefinitely. `has_schedule`: the caller has just made the schedule."""
        updates = 0
        while True:
            is_check_due = updates > 0 and updates % UPDATES_PER_KEEP == 0
            if not has_schedule or is_check_due:
                has_schedule = await self.try_to_keep()
            await self._update_metrics()
            updates += 1
            await asyncio.sleep(UPDATE_PAUSE)

    async def try_to_keep(self) -> bool:
        """Make or change the schedule. Return whether the change succeeded; a worker works without the audit, too."""
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
