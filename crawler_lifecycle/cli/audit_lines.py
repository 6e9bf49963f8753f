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


def overview_lines(overview: AuditOverview) -> Iterator[str]:
    last = overview.audits[0] if overview.audits else None
    yield f"last complete audit  {_time(overview.last_complete_at)}"
    if last is not None:
        yield f"last audit           {_audit(last)}"
        yield from (f"  {name}: {_part(part)}" for name, part in last.parts.items())
    yield ""
    yield click.style("Disagreements", bold=True)
    yield f"  {_counts(overview.open)}"
    for finding in overview.findings:
        yield from (f"  {line}" for line in finding_lines(finding))


def finding_lines(finding: FindingRecord) -> Iterator[str]:
    """Yield the lines of a finding: its times, message, repair and evidence."""
    state = f"until {_time(finding.closed_at)}" if finding.closed_at else "open"
    yield f"{_time(finding.first_seen_at)}  {finding.kind}, {state}: {_about(finding.run_id)}{finding.message}"
    if finding.action:
        times = f", {finding.acts} times so far" if finding.acts > 1 else ""
        yield f"    done {_time(finding.acted_at)}: {finding.action}{times}"
    if finding.problem and finding.closed_at is None:
        yield f"    {finding.problem}"
    if finding.evidence:
        yield from (f"    | {line}" for line in finding.evidence.splitlines()[-3:])


def report_lines(report: AuditReport) -> Iterator[str]:
    repair = report.audit.repair
    yield "audit with repair" if repair else "dry run: nothing was changed"
    yield from (f"  {name}: {_part(part)}" for name, part in report.parts.items())
    for finding in report.findings:
        yield f"  {finding.kind}: {_about(finding.run_id)}{finding.message}"
        yield from (f"    {line}" for line in _outcome(finding))
    if report.findings_count > len(report.findings):
        yield f"  ... {report.findings_count - len(report.findings)} more"


def _outcome(finding: Finding) -> Iterator[str]:
    if finding.action:
        yield f"done: {finding.action}"
    if finding.problem:
        yield finding.problem


def _about(run_id: int | None) -> str:
    return f"run {run_id}: " if run_id is not None else ""


def _audit(audit: AuditRecord) -> str:
    state = "complete" if audit.complete else "not complete" if audit.finished_at else "under way, or cut off"
    return f"{_time(audit.began_at)}, {state}"


def _part(part: PartReport) -> str:
    line = f"{part.examined} examined, {_counts(part.found)}"
    line += f", {part.acted} acted on" if part.acted else ""
    line += f", {part.unknown} could not be seen" if part.unknown else ""
    return f"{line}; not finished: {part.problem}" if part.problem else line


def _counts(findings: Mapping[FindingKind, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in findings.items() if count) or "nothing"


def _time(moment: datetime | None) -> str:
    return rfc3339(moment) if moment else "never"
