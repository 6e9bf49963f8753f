"""Searches for runs whose workflows fail again and again at the same Temporal workflow task, for example after a bug.

Such a run makes no progress and never ends. The audit cannot be relied on to report the problem, since the audit is a
workflow itself. So a plain loop in every worker asks Temporal about every open run, records problems among the findings
of audits, and counts the problems in a metric.
"""

import asyncio
import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import uuid4

from prometheus_client import CollectorRegistry, Gauge

from crawler_lifecycle.activities.failing import failing_workflows
from crawler_lifecycle.contract.audits import AuditRef, Finding, FindingKind
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.ports import Findings, Records, Supervisors

log = logging.getLogger(__name__)
RUNS_IN_A_PAGE = 500
PAUSE = 15.0  # seconds
PAUSE_PER_DURATION = 20  # a pause is so many times as long as the search before, if that is longer than PAUSE


@dataclass
class FailingWorkflows:
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
            await asyncio.sleep(max(PAUSE, PAUSE_PER_DURATION * (time.monotonic() - began)))

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
