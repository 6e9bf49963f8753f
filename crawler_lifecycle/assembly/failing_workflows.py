"""Searches in every worker for runs whose workflows fail again and again at the same Temporal workflow task.

Such a run makes no progress and never ends. The audit may be affected too, since the audit is a workflow itself. So a
loop outside of Temporal asks about every open run, records failing workflows among the findings of audits, and counts
failing workflows in a metric.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import uuid4

from prometheus_client import CollectorRegistry, Gauge

from crawler_lifecycle.audits.activities.auditing import failing_workflows
from crawler_lifecycle.audits.ports import Findings
from crawler_lifecycle.delivery.ports import Supervisors
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.model.audits import AuditRef, Finding, FindingKind
from crawler_lifecycle.runs.ports import Records

log = logging.getLogger(__name__)
RUNS_IN_A_PAGE = 500
SEARCH_PAUSE = 15.0  # shortest pause between two searches, in seconds
PAUSE_PER_DURATION = 20  # after a slow search the pause is 20 times as long, to spare database and Temporal


@dataclass
class FailingWorkflows:
    """Loop that searches for failing workflows."""

    records: Records
    findings: Findings
    supervisors: Supervisors
    metrics: CollectorRegistry | None = None

    def __post_init__(self) -> None:
        meaning = "Runs whose workflows fail the same workflow task again and again"
        self._gauge = Gauge("crawler_workflows_failing", meaning, registry=self.metrics)
        self._failing_before: set[int | None] | None = None  # RunIDs of the last search; None: no search yet

    async def run(self) -> None:
        """Search indefinitely."""
        while True:
            began = time.monotonic()
            try:
                await self.search()
            except LifecycleError as error:
                log.warning("the search for failing workflows is not possible: %s", error.message)
            duration = time.monotonic() - began
            await asyncio.sleep(max(SEARCH_PAUSE, PAUSE_PER_DURATION * duration))

    async def search(self) -> list[Finding]:
        """Report and return every open run with a failing workflow, and close the findings of recovered runs."""
        search = AuditRef(audit_uid=str(uuid4()), began_at=datetime.now(UTC))
        findings = await self._find()
        if findings:
            await asyncio.to_thread(self.findings.report, search, findings)
        # A healthy installation writes nothing: no workflow failed in the last search, and no workflow fails now. The
        # first search always writes, because an earlier process may have left open findings.
        may_have_open_findings = bool(findings) or self._failing_before != set()
        if may_have_open_findings:
            await asyncio.to_thread(self.findings.close, search, (FindingKind.WORKFLOW_FAILING,))
        self._gauge.set(len(findings))
        self._log_new(findings)
        self._failing_before = {finding.run_id for finding in findings}
        return findings

    async def _find(self) -> list[Finding]:
        findings: list[Finding] = []
        after: int | None = 0
        while after is not None:
            page, after = await asyncio.to_thread(self.records.open_runs, after, RUNS_IN_A_PAGE)
            findings += await failing_workflows(self.supervisors, page)
        return findings

    def _log_new(self, findings: Sequence[Finding]) -> None:
        for finding in findings:
            if finding.run_id not in (self._failing_before or ()):
                log.error("run %s: %s", finding.run_id, finding.message, extra={"run_id": finding.run_id})
