"""Audits over the HTTP API."""

from typing_extensions import TypedDict

from crawler_lifecycle.client.http.connection import Connection, segment
from crawler_lifecycle.contract.answers import AuditStarted
from crawler_lifecycle.contract.audits import AuditOverview, AuditReport, AuditRequest


class _Result(TypedDict):
    report: AuditReport | None


class Audits:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def overview(self, *, findings: int = 100) -> AuditOverview:
        """Return the last audits with repair and their findings."""
        return self._connection.read(AuditOverview, "/v1/audits", limit=findings)

    def start(self, request: AuditRequest) -> AuditStarted:
        """Start an audit and do not wait for its report."""
        body = request.model_dump(mode="json")
        return self._connection.command(AuditStarted, "POST", "/v1/audits", body, repeatable=False)

    def report(self, audit: str) -> AuditReport | None:
        """Return the audit's report; None while the audit is under way."""
        return self._connection.read(_Result, f"/v1/audits/{segment(audit)}")["report"]
