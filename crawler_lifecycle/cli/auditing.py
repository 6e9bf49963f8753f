"""The command audit: what disagrees, and mend it."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler_lifecycle.cli.common import json_option, plain, print_json, state_option
from crawler_lifecycle.cli.failures import DISAGREES, NOT_READY, OK

if TYPE_CHECKING:
    from crawler_lifecycle.contract.audits import AuditOverview, AuditReport
    from crawler_lifecycle.control.control import Control


@click.command()
@click.option("--dry-run", is_flag=True, help="Compare now and tell; nothing is changed, not even written down.")
@click.option("--repair", is_flag=True, help="Compare now and mend, as the audit does that comes by itself.")
@click.option(
    "--remove-unknown-jobs", is_flag=True, help="With --repair: end and remove jobs of ours that belong to no run."
)
@state_option
@json_option
def audit(dry_run: bool, repair: bool, remove_unknown_jobs: bool, state: Path | None, as_json: bool) -> None:
    """What disagrees between database, Temporal and cluster, since when, and what was done about it.

    Without an option it shows what the last audits have found. Exit status 7 if anything disagrees (with --repair: and
    could not be mended), 4 if an audit was not complete or none has been lately.

    \b
    Examples:
      crawlctl audit
      crawlctl audit --dry-run --json | jq '.findings[].message'
      crawlctl audit --repair
    """
    from crawler_lifecycle.control.control import Control

    if dry_run and repair:
        raise click.UsageError("either --dry-run or --repair")
    if remove_unknown_jobs and not repair:
        raise click.UsageError("--remove-unknown-jobs needs --repair")
    control = Control.open(state)
    if dry_run or repair:
        status = _audit_now(control, repair=repair, remove_unknown_jobs=remove_unknown_jobs, as_json=as_json)
    else:
        status = _show(control, as_json=as_json)
    if status != OK:
        raise click.exceptions.Exit(status)


def _show(control: "Control", *, as_json: bool) -> int:
    from crawler_lifecycle.cli.audit_lines import overview_lines

    overview = control.audits.overview()
    if as_json:
        print_json(overview)
    else:
        for line in overview_lines(plain(overview)):
            click.echo(line)
    every = control.installation.settings.audit.every_seconds
    if problem := _late(overview, every):
        click.echo(problem, err=True)
        return NOT_READY
    return DISAGREES if any(overview.open.values()) else OK


def _late(overview: "AuditOverview", every: int) -> str | None:
    if not every:
        return None
    last = overview.last_complete_at
    if last is None:
        return (
            "no audit was complete yet: the first comes by itself once a worker is there, or `crawlctl audit --repair`"
        )
    late = datetime.now(UTC) - last > 3 * timedelta(seconds=every)
    return "no audit was complete lately: is a worker there? `crawlctl doctor` tells" if late else None


def _audit_now(control: "Control", *, repair: bool, remove_unknown_jobs: bool, as_json: bool) -> int:
    from crawler_lifecycle.cli.audit_lines import report_lines
    from crawler_lifecycle.contract.audits import AuditRequest

    request = AuditRequest(repair=repair, remove_unknown_jobs=remove_unknown_jobs)
    report = asyncio.run(control.audits.run(request))
    if as_json:
        print_json(report)
    else:
        for line in report_lines(plain(report)):
            click.echo(line)
    return _status(report)


def _status(report: "AuditReport") -> int:
    if not report.is_complete:
        return NOT_READY
    acted = sum(part.acted for part in report.parts.values())
    return DISAGREES if report.found > acted else OK
