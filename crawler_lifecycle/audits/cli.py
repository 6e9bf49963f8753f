"""The command `audit`, which shows and repairs disagreements of database, Temporal and cluster."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler_lifecycle.console.common import open_connection, print_answer, standard_options, user_name
from crawler_lifecycle.console.failures import DISAGREES, NOT_READY, OK
from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.model.audits import AuditRecord, AuditReport, AuditView, Finding, FindingKind, PartReport
from crawler_lifecycle.runs.cli.details_lines import finding_lines, run_prefix, time_text

if TYPE_CHECKING:
    from crawler_lifecycle.audits.client import ApiAudits
    from crawler_lifecycle.model.audits import AuditReport


def overview_lines(view: AuditView) -> Iterator[str]:
    """Yield the lines for the last recorded audit, its parts, the next audit, and the findings."""
    yield f"last complete audit  {time_text(view.last_complete_at)}"
    if view.next_due:
        yield f"next audit           {time_text(view.next_due)}"
    if view.audits:
        last_audit = view.audits[0]
        yield f"last audit           {_audit_text(last_audit)}"
        yield from (f"  {name}: {_part_text(part)}" for name, part in last_audit.parts.items())
    yield ""
    yield click.style("Disagreements", bold=True)
    yield f"  {_counts(view.open)}"
    for finding in view.findings:
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


@click.command()
@click.option("--dry-run", is_flag=True, help="Compare now and print the differences; change and record nothing.")
@click.option("--repair", is_flag=True, help="Compare and repair now, like the scheduled audit.")
@click.option(
    "--remove-unknown-jobs",
    is_flag=True,
    help="With --repair: end and remove our jobs without a run, if CRAWLER_AUDIT__REMOVE_UNKNOWN_JOBS allows it.",
)
@standard_options
def audit(dry_run: bool, repair: bool, remove_unknown_jobs: bool, state: Path | None, as_json: bool) -> None:
    """Show where database, Temporal and cluster disagree.

    Without an option, show the findings of the last audits. The exit status is 7 after a disagreement (with --repair:
    after a disagreement that could not be repaired), and 4 if an audit was not complete or no audit ran lately. Before
    the first audit is due, the exit status is 0.

    \b
    Examples:
      crawlctl audit
      crawlctl audit --dry-run --json | jq '.findings[].message'
      crawlctl audit --repair
    """
    from crawler_lifecycle.audits.client import ApiAudits

    if dry_run and repair:
        raise click.UsageError("either --dry-run or --repair")
    if remove_unknown_jobs and not repair:
        raise click.UsageError("--remove-unknown-jobs needs --repair")
    audits = ApiAudits(open_connection(state))
    if dry_run or repair:
        status = _audit_now(audits, repair=repair, remove_unknown_jobs=remove_unknown_jobs, as_json=as_json)
    else:
        status = _show(audits, as_json=as_json)
    if status != OK:
        raise click.exceptions.Exit(status)


def _show(audits: "ApiAudits", *, as_json: bool) -> int:
    """Print the findings of the last audits and return the exit status."""
    view = audits.overview()
    print_answer(view, overview_lines, as_json=as_json)
    if view.problem is not None:
        raise NotReady(view.problem)
    return DISAGREES if any(view.open.values()) else OK


def _audit_now(audits: "ApiAudits", *, repair: bool, remove_unknown_jobs: bool, as_json: bool) -> int:
    """Run an audit, print the report, and return the exit status."""
    from crawler_lifecycle.model.audits import AuditRequest

    request = AuditRequest(repair=repair, remove_unknown_jobs=remove_unknown_jobs, requested_by=user_name())
    report = audits.run(request)
    print_answer(report, report_lines, as_json=as_json)
    return _status(report)


def _status(report: "AuditReport") -> int:
    """Return the exit status: DISAGREES if there are more findings than repairs. A dry run repairs nothing."""
    if not report.is_complete:
        return NOT_READY
    repairs = sum(part.acted for part in report.parts.values())
    return DISAGREES if report.findings_count > repairs else OK
