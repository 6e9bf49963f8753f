"""Gauges for late starts. The watcher has them, because they matter most while no worker runs."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry, Gauge

from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.schedules.commands.late_starts import LateStarts

log = logging.getLogger(__name__)
PAUSE = 30.0  # seconds between two reads


class LateStartMetrics:
    """Loop that reads the figures. While Temporal does not answer, the gauges are NaN."""

    def __init__(self, read: Callable[[datetime], Awaitable[LateStarts]], metrics: CollectorRegistry | None) -> None:
        self._read = read
        self._requests = Gauge(
            "crawler_requests_without_run",
            "Requests for runs, accepted more than a minute ago, that no worker has made a run",
            registry=metrics,
        )
        self._schedules = Gauge(
            "crawler_schedule_delay_seconds", "Time since the earliest occurrence that has not fired", registry=metrics
        )
        self._peak = Gauge(
            "crawler_requests_in_peak",
            "Requests in the last ten minutes, if some have no run and most of an hour came then; otherwise 0",
            registry=metrics,
        )

    async def run(self) -> None:
        """Read indefinitely."""
        while True:
            await self.refresh()
            await asyncio.sleep(PAUSE)

    async def refresh(self) -> None:
        requests = schedule_seconds = peak = float("nan")
        try:
            figures = await self._read(datetime.now(UTC))
            requests, schedule_seconds, peak = figures.requests, figures.schedule_seconds, figures.peak
            for problem in figures.problems:
                log.warning("%s", problem)
        except LifecycleError as error:
            log.warning("no metrics of late starts: %s", error.message)
        self._requests.set(requests)
        self._schedules.set(schedule_seconds)
        self._peak.set(peak)
