"""The command for a pass at once, or for a report in advance."""

import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler_lifecycle.cli.common import open_context, print_json, standard_options
from crawler_lifecycle.errors import TemporaryError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crawler_lifecycle.retention.model import PassReport

MEBI = 1 << 20


@click.command()
@click.option("--dry-run", is_flag=True, help="Report what would be removed, and remove nothing.")
@standard_options
def prune(dry_run: bool, state: Path | None, as_json: bool) -> None:
    """Remove old runs, flows, logs and files now, as a worker does every hour.

    The settings CRAWLER_RETENTION__* have the ages. Open and pending runs stay, and runs with a finding.

    \b
    Examples:
      crawlctl prune --dry-run
      crawlctl prune
    """
    from crawler_lifecycle.retention.keeper import retention_of

    retention = retention_of(open_context(state).parts, f"crawlctl on {socket.gethostname()}")
    report = retention.survey() if dry_run else retention.make_pass(threading.Event())
    if report is None:
        raise TemporaryError(f"{retention.store.last().holder} is removing what is old at the moment")
    if as_json:
        print_json(report)
        return
    for line in _lines(report, dry_run=dry_run):
        click.echo(line)


def _lines(report: "PassReport", *, dry_run: bool) -> "Iterator[str]":
    word = "would be removed" if dry_run else "removed"
    for kind, number in report.removed.items():
        size = report.bytes.get(kind)
        yield f"{number} {kind.replace('_', ' ')} {word}" + (f", {size / MEBI:.1f} MiB" if size else "")
    if not report.removed:
        yield f"nothing {word}"
    for hold, number in report.held.items():
        yield f"{number} old runs stay: {hold}"
    if report.problem:
        yield f"problem: {report.problem}"
