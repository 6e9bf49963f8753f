"""The command for a pass at once, or for a report in advance."""

import socket
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler_lifecycle.assembly.direct import open_parts
from crawler_lifecycle.console.common import Duration, print_json, standard_options
from crawler_lifecycle.errors import TemporaryError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crawler_lifecycle.retention.model import PassReport

MEBI = 1 << 20


@click.command()
@click.option("--dry-run", is_flag=True, help="Report what would be removed, and remove nothing.")
@click.option("--flows-older-than", "flows_age", type=Duration(), metavar="AGE",
              help="Remove only flows, as soon as they have this age since their end.")  # fmt: skip
@standard_options
def prune(dry_run: bool, flows_age: int | None, state: Path | None, as_json: bool) -> None:
    """Remove old runs, flows, logs and files now, as a worker does every hour.

    The settings CRAWLER_RETENTION__* have the ages. Open and pending runs and flows stay, and those with a finding.

    \b
    Examples:
      crawlctl prune --dry-run
      crawlctl prune
      crawlctl prune --flows-older-than 30d
    """
    from crawler_lifecycle.retention.keeper import retention_of
    from crawler_lifecycle.retention.model import Ages

    retention = retention_of(open_parts(state), f"crawlctl on {socket.gethostname()}")
    if flows_age is not None:
        only_flows = Ages(runs=None, flows=timedelta(seconds=flows_age), logs=None, archives=None, lines=None)
        retention = replace(retention, ages=only_flows)
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
