"""Watch of a worker over runs whose workflows fail their tasks.

Such a run makes no progress and never ends, and no workflow can report the problem, since the audit is a workflow
itself. So a plain loop of the worker describes every open run, keeps problems among the findings of audits, and counts
the problems.
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
PAUSE = 15.0
SHARE = 20  # times the duration of the last round


@dataclass
class FailingWorkflows:
    records: Records
    findings: Findings
    supervisors: Supervisors
    metrics: CollectorRegistry | None = None

    def __post_init__(self) -> None:
        meaning = "Runs whose workflows fail the same task again and again"
        self._gauge = Gauge("crawler_workflows_failing", meaning, registry=self.metrics)
        self._known: set[int | None] | None = None  # runs found in the last round; none before the first

    async def run(self) -> None:
        while True:
            began = time.monotonic()
            try:
                await self.look()
            except LifecycleError as error:
                log.warning("runs whose workflows fail cannot be searched for: %s", error.message)
            await asyncio.sleep(max(PAUSE, SHARE * (time.monotonic() - began)))

    async def look(self) -> list[Finding]:
        """Report every open run with a failing workflow, and close the findings of recovered runs."""
        round_ = AuditRef(audit_uid=str(uuid4()), began_at=datetime.now(UTC))
        findings: list[Finding] = []
        after: int | None = 0
        while after is not None:
            page, after = await asyncio.to_thread(self.records.open_runs, after, RUNS_IN_A_PAGE)
            findings += await failing_workflows(self.supervisors, page)
        if findings:
            await asyncio.to_thread(self.findings.report, round_, findings)
        if findings or self._known is None or self._known:  # a healthy installation writes nothing
            await asyncio.to_thread(self.findings.close, round_, (FindingKind.WORKFLOW_FAILING,))
        self._gauge.set(len(findings))
        for finding in findings:
            if finding.run_id not in (self._known or ()):
                log.error("run %s: %s", finding.run_id, finding.message, extra={"run_id": finding.run_id})
        self._known = {finding.run_id for finding in findings}
        return findings
