"""Turns audits into lines of text."""

from collections.abc import Iterator, Mapping

import click

from crawler_lifecycle.model.audits import AuditOverview, AuditRecord, AuditReport, Finding, FindingKind, PartReport
from crawler_lifecycle.runs.cli.finding_lines import finding_lines, run_prefix, time_text


def overview_lines(overview: AuditOverview) -> Iterator[str]:
    """Yield the lines for the last recorded audit, its parts, and the findings."""
    yield f"last complete audit  {time_text(overview.last_complete_at)}"
    if overview.audits:
        last_audit = overview.audits[0]
        yield f"last audit           {_audit_text(last_audit)}"
        yield from (f"  {name}: {_part_text(part)}" for name, part in last_audit.parts.items())
    yield ""
    yield click.style("Disagreements", bold=True)
    yield f"  {_counts(overview.open)}"
    for finding in overview.findings:
        yield from (f"  {line}" for line in finding_lines(finding))


def report_lines(report: AuditReport) -> Iterator[str]:
    """Yield the lines for an audit by this command."""
    yield "audit with repair" if report.audit.repair else "dry run: nothing was changed"
    yield from (f"  {name}: {_part_text(part)}" for name, part in report.parts.items())
    for finding in report.findings:
        yield f"  {finding.kind}: {run_prefix(finding.run_id)}{finding.message}"
        yield from (f"    {line}" for line in _repair_lines(finding))
    if report.findings_count > len(report.findings):
        yield f"  ... {report.findings_count - len(report.findings)} more"


def _repair_lines(finding: Finding) -> Iterator[str]:
    if finding.action:
        yield f"done: {finding.action}"
    if finding.problem:
        yield finding.problem


def _audit_text(audit: AuditRecord) -> str:
    requester = f", requested by {audit.requested_by}" if audit.requested_by else ""
    return f"{time_text(audit.began_at)}, {_audit_state(audit)}{requester}"


def _audit_state(audit: AuditRecord) -> str:
    if audit.complete:
        return "complete"
    return "not complete" if audit.finished_at else "under way, or cut off"


def _part_text(part: PartReport) -> str:
    text = f"{part.examined} examined, {_counts(part.found)}"
    if part.acted:
        text += f", {part.acted} acted on"
    if part.unknown:
        text += f", {part.unknown} could not be seen"
    if part.problem:
        text += f"; not finished: {part.problem}"
    return text


def _counts(findings: Mapping[FindingKind, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in findings.items() if count) or "nothing"
