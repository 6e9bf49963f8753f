"""The commands for schedules: create, list, show, pause, resume, trigger, backfill, delete, export, apply."""

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler_lifecycle.base.words import counted
from crawler_lifecycle.console.common import (
    Moment,
    print_answer,
    print_json,
    standard_options,
    terminal_width,
    user_name,
)
from crawler_lifecycle.console.failures import Commands
from crawler_lifecycle.runs.cli.requests import record_options
from crawler_lifecycle.schedules.cli.creating import create
from crawler_lifecycle.schedules.cli.files import apply, export
from crawler_lifecycle.schedules.cli.lines import open_schedules, print_schedule, schedule_argument

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crawler_lifecycle.schedules.model import Backfilled, Triggered


@click.group(cls=Commands)
def schedule() -> None:
    """Start runs and flows by the clock.

    \b
    Start with:
      crawlctl schedule create nightly bookshop --cron "0 3 * * *" --time-zone Europe/Berlin
      crawlctl schedule show nightly      its next times, and the outcomes of its last occurrences
    """


schedule.add_command(create)
schedule.add_command(export)
schedule.add_command(apply)


@schedule.command("list")
@standard_options
def list_schedules(state: Path | None, as_json: bool) -> None:
    """List the schedules by name.

    \b
    Examples:
      crawlctl schedule list
      crawlctl schedule list --json | jq -r '.[] | select(.paused) | .schedule_id'
    """
    from crawler_lifecycle.schedules.cli.lines import list_lines

    schedules = open_schedules(state).list()
    print_answer(schedules, lambda rows: list_lines(rows, datetime.now(UTC), terminal_width()), as_json=as_json)
    if not schedules and not as_json:
        click.echo("No schedules.")


@schedule.command()
@schedule_argument
@click.option(
    "--last", type=click.IntRange(0, 500), default=10, show_default=True, help="Number of latest occurrences."
)
@click.option("--before", type=Moment(), help="Only occurrences before this time; default: now.")
@standard_options
def show(schedule_id: str, last: int, before: datetime | None, state: Path | None, as_json: bool) -> None:
    """Show the rules of SCHEDULE, its next times, and the outcomes of its last occurrences.

    Temporal counts skipped occurrences, but does not list them: the outcome `skipped` is concluded from the recorded
    pauses, from the runs that were open at the time, and from the counts. If there is no conclusion, the outcome is
    `unknown`.

    \b
    Examples:
      crawlctl schedule show nightly --last 30
      crawlctl schedule show nightly --before 2026-11-01T00:00Z
      crawlctl schedule show nightly --json | jq '.occurrences[] | select(.outcome == "skipped")'
    """
    details = open_schedules(state).show(schedule_id, occurrences=last, before=before)
    print_schedule(details, as_json=as_json, with_occurrences=last > 0, before=before)


@schedule.command()
@schedule_argument
@record_options
@standard_options
def pause(schedule_id: str, reason: str | None, actor: str | None, state: Path | None, as_json: bool) -> None:
    """Let no occurrence of SCHEDULE start until a resume. Runs under way continue.

    \b
    Example:
      crawlctl schedule pause nightly --reason "the site is being rebuilt"
    """
    paused = open_schedules(state).pause(schedule_id, reason=reason, actor=actor or user_name())
    print_schedule(paused, as_json=as_json)


@schedule.command()
@schedule_argument
@record_options
@standard_options
def resume(schedule_id: str, reason: str | None, actor: str | None, state: Path | None, as_json: bool) -> None:
    """Resume SCHEDULE. Occurrences in the pause stay skipped; `backfill` starts them."""
    resumed = open_schedules(state).resume(schedule_id, reason=reason, actor=actor or user_name())
    print_schedule(resumed, as_json=as_json)


@schedule.command()
@schedule_argument
@standard_options
def trigger(schedule_id: str, state: Path | None, as_json: bool) -> None:
    """Start an occurrence of SCHEDULE now, also while SCHEDULE is paused. Its overlap policy holds.

    The exit status is 0 also for an occurrence that an open run makes Temporal skip; the answer says so.
    """
    triggered = open_schedules(state).trigger(schedule_id, actor=user_name())
    print_answer(triggered, _trigger_lines, as_json=as_json)


def _trigger_lines(triggered: "Triggered") -> "Iterator[str]":
    outcome_text = {
        "started": f"started workflow {triggered.workflow_id}",
        "queued": "an earlier run is open: the occurrence starts after the end of that run",
        "skipped": "skipped: an earlier run is still open",
        "asked": "triggered; `crawlctl schedule show` shows the outcome later",
    }[triggered.outcome]
    yield f"schedule {triggered.schedule_id}: {outcome_text}"


@schedule.command()
@schedule_argument
@click.option("--from", "since", type=Moment(), required=True, help="Begin, e.g. 2026-11-01T00:00Z.")
@click.option("--to", "until", type=Moment(), help="End; default: now.")
@click.option("--at-once", is_flag=True, help="All at the same time; default: one after another.")
@standard_options
def backfill(schedule_id: str, since: datetime, until: datetime | None, at_once: bool, state: Path | None,
             as_json: bool) -> None:  # fmt: skip
    """Start the past occurrences between two times again, also if they ran. Times without a zone are UTC.

    An occurrence with an open run is not started again.

    \b
    Examples:
      crawlctl schedule backfill nightly --from 2026-11-16 --to 2026-11-18
      crawlctl schedule backfill news --from 2026-11-20T06:00Z --at-once
    """
    until = until or datetime.now(UTC)
    schedules = open_schedules(state)
    backfilled = schedules.backfill(schedule_id, since, until, at_once=at_once, actor=user_name())
    order = "at once" if at_once else "one after another"
    print_answer(backfilled, partial(_backfill_lines, order), as_json=as_json)


def _backfill_lines(order: str, backfilled: "Backfilled") -> "Iterator[str]":
    from crawler_lifecycle.console.words import rfc3339

    occurrences = counted(len(backfilled.occurrences), "past occurrence")
    yield f"schedule {backfilled.schedule_id}: runs are started {order} for {occurrences}:"
    yield from (f"  {rfc3339(moment)}" for moment in backfilled.occurrences)


@schedule.command()
@schedule_argument
@standard_options
def delete(schedule_id: str, state: Path | None, as_json: bool) -> None:
    """Delete SCHEDULE. Runs under way continue, and earlier runs stay recorded."""
    open_schedules(state).delete(schedule_id, actor=user_name())
    if as_json:
        print_json({"schedule_id": schedule_id, "deleted": True})
    else:
        click.echo(f"schedule {schedule_id} is deleted; runs under way continue")
