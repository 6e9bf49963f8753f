"""Turns audits and findings into lines of text."""

from collections.abc import Iterator, Mapping
from datetime import datetime

import click

from crawler_lifecycle.cli.words import rfc3339
from crawler_lifecycle.contract.audits import (
    AuditOverview,
    AuditRecord,
    AuditReport,
    Finding,
    FindingKind,
    FindingRecord,
    PartReport,
)

LAST_LINES = 3  # longest extract from a finding's evidence


def overview_lines(overview: AuditOverview) -> Iterator[str]:
    """Yield the lines for the last recorded audit, its parts, and the findings."""
    yield f"last complete audit  {_time(overview.last_complete_at)}"
    if overview.audits:
        last_audit = overview.audits[0]
        yield f"last audit           {_audit_text(last_audit)}"
        yield from (f"  {name}: {_part_text(part)}" for name, part in last_audit.parts.items())
    yield ""
    yield click.style("Disagreements", bold=True)
    yield f"  {_counts(overview.open)}"
    for finding in overview.findings:
        yield from (f"  {line}" for line in finding_lines(finding))


def finding_lines(finding: FindingRecord) -> Iterator[str]:
    """Yield the lines of a finding: its times, message, repair and evidence."""
    state = f"until {_time(finding.closed_at)}" if finding.closed_at else "open"
    yield f"{_time(finding.first_seen_at)}  {finding.kind}, {state}: {_run_prefix(finding.run_id)}{finding.message}"
    if finding.action:
        times = f", {finding.acts} times so far" if finding.acts > 1 else ""
        yield f"    done {_time(finding.acted_at)}: {finding.action}{times}"
    if finding.problem and finding.closed_at is None:
        yield f"    {finding.problem}"
    if finding.evidence:
        yield from (f"    | {line}" for line in finding.evidence.splitlines()[-LAST_LINES:])


def report_lines(report: AuditReport) -> Iterator[str]:
    """Yield the lines for an audit by this command."""
    yield "audit with repair" if report.audit.repair else "dry run: nothing was changed"
    yield from (f"  {name}: {_part_text(part)}" for name, part in report.parts.items())
    for finding in report.findings:
        yield f"  {finding.kind}: {_run_prefix(finding.run_id)}{finding.message}"
        yield from (f"    {line}" for line in _repair_lines(finding))
    if report.findings_count > len(report.findings):
        yield f"  ... {report.findings_count - len(report.findings)} more"


def _repair_lines(finding: Finding) -> Iterator[str]:
    if finding.action:
        yield f"done: {finding.action}"
    if finding.problem:
        yield finding.problem


def _run_prefix(run_id: int | None) -> str:
    return f"run {run_id}: " if run_id is not None else ""


def _audit_text(audit: AuditRecord) -> str:
    requester = f", requested by {audit.requested_by}" if audit.requested_by else ""
    return f"{_time(audit.began_at)}, {_audit_state(audit)}{requester}"


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


def _time(moment: datetime | None) -> str:
    return rfc3339(moment) if moment else "never"
