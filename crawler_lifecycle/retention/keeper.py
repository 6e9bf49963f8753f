"""The loop in every worker: makes a pass when due, and keeps the metrics about passes and sizes."""

import asyncio
import logging
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from crawler_lifecycle.assembly.parts import Parts
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.retention.model import Ages, Folders, KeepReason, LastPass, Sizes
from crawler_lifecycle.retention.passes import Retention
from crawler_lifecycle.retention.store import RetentionStore

log = logging.getLogger(__name__)
PAUSE = 60.0  # seconds between two checks whether a pass is due


@dataclass(eq=False)
class RetentionMetrics(Collector):
    every_seconds: int
    last: LastPass | None = None  # None: not read yet
    sizes: Sizes | None = None
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def collect(self) -> Iterable[Metric]:
        now = datetime.now(UTC)
        finished_at = self.last.finished_at if self.last else None
        age = (now - (finished_at or self.started_at)).total_seconds()
        yield GaugeMetricFamily("crawler_retention_age_seconds", "Since the last pass without a problem", value=age)
        period = "Period of the removal of what is old; 0: none"
        yield GaugeMetricFamily("crawler_retention_every_seconds", period, value=self.every_seconds)
        if self.last and self.last.report:
            held = GaugeMetricFamily("crawler_retention_held_runs", "Old runs that stay, by cause", labels=["cause"])
            for hold in KeepReason:
                held.add_metric([hold], self.last.report.held.get(hold, 0))
            yield held
        if self.sizes:
            size = GaugeMetricFamily("crawler_database_bytes", "Size of the database", labels=["table"])
            for table, number in self.sizes.tables.items():
                size.add_metric([table], number)
            yield size
            oldest = self.sizes.oldest_run_at
            oldest_age = (now - oldest).total_seconds() if oldest else 0.0
            yield GaugeMetricFamily("crawler_oldest_run_age_seconds", "Age of the oldest run", value=oldest_age)


def retention_of(parts: Parts, holder: str) -> Retention:
    settings = parts.settings
    is_local = settings.cluster.kind == "local"
    jobs = settings.jobs_folder / "jobs" if is_local else None
    return Retention(
        store=RetentionStore(parts.database),
        flows=parts.store.flow_doors,
        cluster=lambda: parts.cluster,
        ages=Ages(**settings.retention.ages),
        folders=Folders(settings.files_folder.absolute(), jobs, settings.exports_folder.absolute()),
        holder=holder,
    )


@dataclass(frozen=True)
class RetentionKeeper:
    retention: Retention
    metrics: RetentionMetrics

    async def run(self) -> None:
        """Make passes until the task is cancelled. A pass under way then ends after its transaction."""
        stopped = threading.Event()
        try:
            while True:
                try:
                    await asyncio.to_thread(self.make_due_pass, stopped)
                except LifecycleError as error:
                    log.warning("what is old cannot be removed: %s", error.message)
                await asyncio.sleep(PAUSE)
        finally:
            stopped.set()

    def make_due_pass(self, stopped: threading.Event) -> None:
        """Make a pass if the last pass ended a period ago, and read the metrics."""
        store, every = self.retention.store, self.metrics.every_seconds
        self.metrics.last, self.metrics.sizes = store.last(), store.sizes()
        report = self.metrics.last.report
        ended_at = report.finished_at if report else None
        if not every or (ended_at and self.retention.clock() - ended_at < timedelta(seconds=every)):
            return
        new = self.retention.make_pass(stopped)
        self.metrics.last = store.last()
        if new and new.problem:
            log.warning("not everything that is old could be removed: %s", new.problem)
        if new and new.removed:
            removed = ", ".join(f"{number} {kind}" for kind, number in new.removed.items())
            log.info("removed what is old: %s", removed)
