"""Audits from start to report, by the commands of the HTTP API."""

from functools import partial

from crawler_lifecycle.audits.commands import AuditCommands
from crawler_lifecycle.model.audits import AuditReport, AuditRequest
from tests.kit.waiting import eventually_async


async def audited(audits: AuditCommands, *, repair: bool = False) -> AuditReport:
    """Start an audit and return its report."""
    started = await audits.start(AuditRequest(repair=repair))
    report = await eventually_async(partial(audits.result, started.audit), "the audit to end", patience=120)
    assert report is not None
    return report
