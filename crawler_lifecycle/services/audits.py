"""Keeps the audit's schedule in Temporal and metrics about audits, and searches for workflows that fail repeatedly.

Every worker does all three. If the audit does not run any more, its age in the metrics grows.

A run whose workflow fails again and again at the same Temporal workflow task makes no progress and never ends. The
audit cannot be relied on to report the problem, since the audit is a workflow itself. So a plain loop in every worker
asks Temporal about every open run, records problems among the findings of audits, and counts the problems in a metric.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import uuid4

from prometheus_client import CollectorRegistry, Gauge, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from crawler_lifecycle.activities.auditing import failing_workflows
from crawler_lifecycle.contract.audits import AuditOverview, AuditRef, Finding, FindingKind
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.ports import Findings, Records, Supervisors

log = logging.getLogger(__name__)
UPDATE_PAUSE = 30.0  # seconds between two updates of the metrics
UPDATES_PER_KEEP = 20  # updates between two checks of the schedule: ten minutes
RUNS_IN_A_PAGE = 500
SEARCH_PAUSE = 15.0  # seconds between two searches, at least
PAUSE_PER_DURATION = 20  # a pause is 20 times as long as a slow search, to spare database and Temporal


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
    """Loop that keeps the audit's schedule in Temporal, and the metrics about audits."""

    keep_schedule: Callable[[], Awaitable[None]]
    read_overview: Callable[[], AuditOverview]
    metrics: AuditMetrics

    async def run(self, *, kept: bool = False) -> None:
        """Keep schedule and metrics up to date for ever. `kept`: the caller has just made the schedule."""
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


@dataclass
class FailingWorkflows:
    """Loop that searches for runs' failing workflows."""

    records: Records
    findings: Findings
    supervisors: Supervisors
    metrics: CollectorRegistry | None = None

    def __post_init__(self) -> None:
        meaning = "Runs whose workflows fail the same workflow task again and again"
        self._gauge = Gauge("crawler_workflows_failing", meaning, registry=self.metrics)
        self._failing_before: set[int | None] | None = None  # runs in the last search; none before the first search

    async def run(self) -> None:
        while True:
            began = time.monotonic()
            try:
                await self.search()
            except LifecycleError as error:
                log.warning("the search for failing workflows is not possible: %s", error.message)
            await asyncio.sleep(max(SEARCH_PAUSE, PAUSE_PER_DURATION * (time.monotonic() - began)))

    async def search(self) -> list[Finding]:
        """Report and return every open run with a failing workflow, and close the findings of recovered runs."""
        search = AuditRef(audit_uid=str(uuid4()), began_at=datetime.now(UTC))
        findings: list[Finding] = []
        after: int | None = 0
        while after is not None:
            page, after = await asyncio.to_thread(self.records.open_runs, after, RUNS_IN_A_PAGE)
            findings += await failing_workflows(self.supervisors, page)
        if findings:
            await asyncio.to_thread(self.findings.report, search, findings)
        if findings or self._failing_before is None or self._failing_before:  # a healthy installation writes nothing
            await asyncio.to_thread(self.findings.close, search, (FindingKind.WORKFLOW_FAILING,))
        self._gauge.set(len(findings))
        for finding in findings:
            if finding.run_id not in (self._failing_before or ()):
                log.error("run %s: %s", finding.run_id, finding.message, extra={"run_id": finding.run_id})
        self._failing_before = {finding.run_id for finding in findings}
        return findings
