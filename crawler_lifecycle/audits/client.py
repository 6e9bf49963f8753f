"""Audits over the HTTP API."""

import time

from typing_extensions import TypedDict

from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.model.answers import AuditStarted
from crawler_lifecycle.model.audits import AuditReport, AuditRequest, AuditView
from crawler_lifecycle.transport.connection import HttpConnection, segment

AUDIT_PATIENCE = 120.0  # seconds to wait for a report
AUDIT_PAUSE = 1.0  # seconds between two reads


class _Result(TypedDict):
    report: AuditReport | None


class ApiAudits:
    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection

    def overview(self, *, findings: int = 100) -> AuditView:
        """Return the last audits with repair and their findings."""
        return self._connection.read(AuditView, "/v1/audits", limit=findings)

    def start(self, request: AuditRequest) -> AuditStarted:
        """Start an audit and do not wait for its report."""
        body = request.model_dump(mode="json")
        return self._connection.command(AuditStarted, "POST", "/v1/audits", body, repeatable=False)

    def run(self, request: AuditRequest) -> AuditReport:
        """Start an audit and return its report. TemporaryError if the report takes longer than AUDIT_PATIENCE."""
        audit, deadline = self.start(request).audit, time.monotonic() + AUDIT_PATIENCE
        while (report := self.report(audit)) is None:
            if time.monotonic() > deadline:
                raise TemporaryError(
                    f"audit {audit} is under way but not done after {AUDIT_PATIENCE:.0f} s: `crawlctl audit` shows the "
                    "findings later"
                )
            time.sleep(AUDIT_PAUSE)
        return report

    def report(self, audit: str) -> AuditReport | None:
        """Return the audit's report; None while the audit is under way."""
        return self._connection.read(_Result, f"/v1/audits/{segment(audit)}")["report"]
