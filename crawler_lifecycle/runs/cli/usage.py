"""The command `usage`, and the words for a run's use."""

import csv
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler_lifecycle.console.common import Moment, print_answer, standard_options, until_reader_leaves
from crawler_lifecycle.console.words import duration, size, table
from crawler_lifecycle.runs.cli.requests import open_runs

if TYPE_CHECKING:
    from crawler_lifecycle.model.records import RunRecord
    from crawler_lifecycle.model.usage import GroupUse, Usage

GROUPINGS = ("crawler", "tenant", "flow", "label")  # without the slow import of the contract
COLUMNS = ("RUNS", "TASK HOURS", "CPU HOURS", "GIB HOURS", "ARCHIVED")


@click.command()
@click.option("--by", type=click.Choice(GROUPINGS), default="crawler", show_default=True, help="Group of the runs.")
@click.option(
    "--since",
    type=Moment(),
    help="Only runs that ended from then on, at most 31 days before --until; default: 30 days.",
)
@click.option("--until", type=Moment(), help="Only runs that ended before; default: now.")
@click.option("--csv", "as_csv", is_flag=True, help="Print the groups as CSV, in seconds and bytes.")
@standard_options
def usage(
    by: str, since: datetime | None, until: datetime | None, as_csv: bool, state: Path | None, as_json: bool
) -> None:
    """Sum the runs' task time, requested CPU and memory, and archived bytes over a period.

    A run counts at its end, with all attempts. Its tenant is NAME in its label `tenant:NAME`. The list has the 1,000
    largest groups and the sum over all runs; a run with several labels counts for every label.

    \b
    Examples:
      crawlctl usage --since 2026-11-01 --until 2026-12-01
      crawlctl usage --by tenant --csv > tenants.csv
    """
    from crawler_lifecycle.model.usage import UsageBy

    answer = open_runs(state).usage(UsageBy(by), since=since, until=until)
    if as_csv:
        _print_csv(answer)
    else:
        print_answer(answer, usage_lines, as_json=as_json)


def _print_csv(answer: "Usage") -> None:
    writer = csv.DictWriter(sys.stdout, type(answer.total).model_fields, lineterminator="\n")
    with until_reader_leaves():
        writer.writeheader()
        writer.writerows(dict(group) for group in answer.groups)


def usage_lines(answer: "Usage") -> Iterator[str]:
    groups = [_row(group.name or "-", group) for group in answer.groups]
    return table([(answer.by.upper(), *COLUMNS), *groups, _row("all", answer.total)])


def _row(name: str, use: "GroupUse") -> tuple[str, ...]:
    hours = (f"{seconds / 3600:,.2f}" for seconds in (use.task_seconds, use.cpu_seconds, use.memory_gib_seconds))
    return name, f"{use.runs:,}", *hours, size(use.archived_bytes)


def use_words(run: "RunRecord") -> str | None:
    """Return the run's use until its last end, such as `1h30m of tasks, 45m00s of CPUs, 1.2 MB archived`."""
    if run.task_seconds is None:
        return None
    times = {"tasks": run.task_seconds, "CPUs": run.cpu_seconds, "GiB of memory": run.memory_gib_seconds}
    words = [f"{duration(timedelta(seconds=time))} of {name}" for name, time in times.items() if time is not None]
    return ", ".join([*words, *([] if run.archived_bytes is None else [f"{size(run.archived_bytes)} archived"])])
