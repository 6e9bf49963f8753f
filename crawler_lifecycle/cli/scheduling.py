"""Commands for runs that start by the clock: schedule create, list, show, pause, resume, trigger, backfill, delete."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crawler_lifecycle.cli.common import Duration, KeyValue, json_option, plain, print_json, state_option, user_name
from crawler_lifecycle.cli.failures import Commands
from crawler_lifecycle.domain.words import counted

if TYPE_CHECKING:
    from crawler_lifecycle.contract.schedules import ScheduleDetails, ScheduleRequest, Triggered
    from crawler_lifecycle.control.schedules import Schedules

OVERLAPS = ("skip", "queue", "replace", "allow")
TIME = click.DateTime(["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M%z", "%Y-%m-%d"])


@click.group(cls=Commands)
def schedule() -> None:
    """Runs that start by the clock.

    \b
    Start with:
      crawlctl schedule create nightly bookshop --cron "0 3 * * *" --time-zone Europe/Berlin
      crawlctl schedule show nightly      its next times, and what became of the last ones
    """


@schedule.command()
@click.argument("schedule_id", metavar="SCHEDULE")
@click.argument("crawler")
@click.option("--cron", multiple=True, help="Five fields, or @daily and such; may be repeated.")
@click.option("--every", type=Duration(), help="Instead of --cron, e.g. 6h: counted from 1970-01-01 in UTC.")
@click.option("--offset", type=Duration(), default=0, help="Shifts --every, e.g. 15m.")
@click.option("--time-zone", default="UTC", show_default=True, help="In which --cron is meant.")
@click.option("--jitter", type=Duration(), default=0, help="Late by a random time up to this, e.g. 5m.")
@click.option(
    "--overlap",
    type=click.Choice(OVERLAPS),
    default="skip",
    show_default=True,
    help="While an earlier run is open: leave it out; start it after that; stop that first; start it beside.",
)
@click.option(
    "--missed-window",
    type=Duration(),
    help="How late it may still start; default: 1h, or 1d with --overlap queue or replace.",
)
@click.option("--paused", is_flag=True, help="Make it, but do not let it go yet.")
@click.option("--replace", is_flag=True, help="Change SCHEDULE, which is there already; paused or not, it stays so.")
@click.option("--arg", "arguments", type=KeyValue(), multiple=True, help="Passed to every task; may be repeated.")
@click.option("--tasks", type=int, help="Number of tasks; default: what the catalogue says.")
@click.option("--max-parallel", type=int, help="Tasks in the cluster at once.")
@click.option("--start-limit", type=Duration(), help="How long the main job may wait to start, e.g. 30s.")
@click.option("--max-duration", type=Duration(), help="How long a run may take in all, e.g. 2h.")
@click.option("--grace", type=Duration(), help="From a stop until it is forced, e.g. 30s.")
@click.option("--allowed-failures", type=float, default=0.0, help="Share of tasks that may fail, 0 to 1.")
@click.option("--requested-by", help="Who asked, for the record; default: you.")
@state_option
@json_option
def create(schedule_id: str, crawler: str, arguments: tuple[tuple[str, str], ...], state: Path | None, as_json: bool,
           **options: Any) -> None:  # fmt: skip
    """Has runs of CRAWLER start by the clock, under the name SCHEDULE.

    As in Temporal, a cron line with both a day of the month and a day of the week means that both have to fit.

    \b
    Examples:
      crawlctl schedule create nightly bookshop --cron "0 3 * * *" --time-zone Europe/Berlin
      crawlctl schedule create news newsroom --every 15m --jitter 1m --overlap queue --arg section=world
      crawlctl schedule create weekly bookshop --cron "30 4 * * mon" --overlap replace --paused
      crawlctl schedule create weekly bookshop --cron "30 5 * * mon" --replace
    """
    replace = options.pop("replace")
    request, schedules = make_schedule(schedule_id, crawler, arguments, options), _schedules(state)
    made = schedules.replace(request) if replace else schedules.create(request, actor=user_name())
    _print(asyncio.run(made), as_json=as_json)


RULES = ("paused", "overlap", "time_zone")
RULES_IN_SECONDS = ("every", "offset", "jitter", "missed_window")


def make_schedule(
    schedule_id: str, crawler: str, arguments: tuple[tuple[str, str], ...], options: dict[str, Any]
) -> "ScheduleRequest":
    from pydantic import ValidationError

    from crawler_lifecycle.cli.running import make_request
    from crawler_lifecycle.contract.requests import as_bad_input
    from crawler_lifecycle.contract.schedules import Overlap, ScheduleRequest

    rules: dict[str, Any] = {name: options.pop(name) for name in RULES}
    rules |= {f"{name}_seconds": options.pop(name) for name in RULES_IN_SECONDS}
    rules |= {"overlap": Overlap(rules["overlap"]), "cron": list(options.pop("cron"))}
    options["requested_by"] = options["requested_by"] or user_name()
    try:
        return ScheduleRequest(
            schedule_id=schedule_id, run=make_request(crawler, arguments, {**options, "trigger": "scheduled"}), **rules
        )
    except ValidationError as error:
        raise as_bad_input(error) from error


@schedule.command("list")
@state_option
@json_option
def list_schedules(state: Path | None, as_json: bool) -> None:
    """The schedules, by name.

    \b
    Examples:
      crawlctl schedule list
      crawlctl schedule list --json | jq -r '.[] | select(.paused) | .schedule_id'
    """
    from crawler_lifecycle.cli.schedule_lines import list_lines

    found = asyncio.run(_schedules(state).list())
    if as_json:
        return print_json(found)
    for line in list_lines(plain(found)):
        click.echo(line)
    if not found:
        click.echo("No schedules.")
    return None


@schedule.command()
@click.argument("schedule_id", metavar="SCHEDULE")
@click.option("--last", type=click.IntRange(0, 500), default=10, show_default=True, help="So many occurrences back.")
@click.option("--before", type=TIME, help="Back from this time on; default: now.")
@state_option
@json_option
def show(schedule_id: str, last: int, before: datetime | None, state: Path | None, as_json: bool) -> None:
    """What SCHEDULE does, when it is due next, and what became of its last occurrences.

    Temporal counts what it skipped but does not keep which: `skipped` is concluded from the pauses on record, from the
    runs that were open at that time, and from those counts. What cannot be concluded is `unknown`.

    \b
    Examples:
      crawlctl schedule show nightly --last 30
      crawlctl schedule show nightly --before 2026-11-01T00:00Z
      crawlctl schedule show nightly --json | jq '.occurrences[] | select(.outcome == "skipped")'
    """
    before = _in_utc(before) if before else None
    _print(asyncio.run(_schedules(state).show(schedule_id, occurrences=last, before=before)), as_json=as_json)


@schedule.command()
@click.argument("schedule_id", metavar="SCHEDULE")
@click.option("--reason", help="Why, for the record.")
@click.option("--actor", help="Who asks, for the record; default: you.")
@state_option
@json_option
def pause(schedule_id: str, reason: str | None, actor: str | None, state: Path | None, as_json: bool) -> None:
    """Lets nothing of SCHEDULE start until it is resumed. Runs under way go on.

    \b
    Example:
      crawlctl schedule pause nightly --reason "the site is being rebuilt"
    """
    paused = _schedules(state).pause(schedule_id, actor=actor or user_name(), reason=reason)
    _print(asyncio.run(paused), as_json=as_json)


@schedule.command()
@click.argument("schedule_id", metavar="SCHEDULE")
@click.option("--reason", help="Why, for the record.")
@click.option("--actor", help="Who asks, for the record; default: you.")
@state_option
@json_option
def resume(schedule_id: str, reason: str | None, actor: str | None, state: Path | None, as_json: bool) -> None:
    """Lets SCHEDULE go on. What was due while it was paused stays skipped; `backfill` starts it."""
    resumed = _schedules(state).resume(schedule_id, actor=actor or user_name(), reason=reason)
    _print(asyncio.run(resumed), as_json=as_json)


@schedule.command()
@click.argument("schedule_id", metavar="SCHEDULE")
@state_option
@json_option
def trigger(schedule_id: str, state: Path | None, as_json: bool) -> None:
    """Starts an occurrence of SCHEDULE now, also if it is paused. Its overlap policy holds.

    Exit status 0 also if it was skipped because a run is open; the answer says so.
    """
    triggered = asyncio.run(_schedules(state).trigger(schedule_id))
    if as_json:
        print_json(triggered)
    else:
        click.echo(_told(triggered))


def _told(triggered: "Triggered") -> str:
    what = {
        "started": f"started workflow {triggered.workflow_id}",
        "queued": "an earlier run is open: the occurrence starts when that has ended",
        "skipped": "skipped: an earlier run is still open",
        "asked": "it is triggered; `crawlctl schedule show` tells later what came of it",
    }[triggered.outcome]
    return f"schedule {triggered.schedule_id}: {what}"


@schedule.command()
@click.argument("schedule_id", metavar="SCHEDULE")
@click.option("--from", "since", type=TIME, required=True, help="From this time on, e.g. 2026-11-01T00:00Z.")
@click.option("--to", "until", type=TIME, help="Up to this time; default: now.")
@click.option("--at-once", is_flag=True, help="All at the same time; default: one after another.")
@state_option
@json_option
def backfill(schedule_id: str, since: datetime, until: datetime | None, at_once: bool, state: Path | None,
             as_json: bool) -> None:  # fmt: skip
    """Starts what was due in the past, whether it ran or not. Times without a zone are UTC.

    An occurrence whose run is still open is not started again.

    \b
    Examples:
      crawlctl schedule backfill nightly --from 2026-11-16 --to 2026-11-18
      crawlctl schedule backfill news --from 2026-11-20T06:00Z --at-once
    """
    from crawler_lifecycle.cli.times import rfc3339

    since, until = _in_utc(since), _in_utc(until or datetime.now(UTC))
    made = asyncio.run(_schedules(state).backfill(schedule_id, since, until, at_once=at_once))
    if as_json:
        return print_json(made)
    how = "at once" if at_once else "one after another"
    click.echo(
        f"schedule {schedule_id}: runs are started {how} for {counted(len(made.occurrences), 'past occurrence')}:"
    )
    for each in made.occurrences:
        click.echo(f"  {rfc3339(each)}")
    return None


def _in_utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@schedule.command()
@click.argument("schedule_id", metavar="SCHEDULE")
@state_option
@json_option
def delete(schedule_id: str, state: Path | None, as_json: bool) -> None:
    """Removes SCHEDULE. Runs under way go on, and those that were stay on record."""
    asyncio.run(_schedules(state).delete(schedule_id))
    if as_json:
        print_json({"schedule_id": schedule_id, "deleted": True})
    else:
        click.echo(f"schedule {schedule_id} is deleted; runs under way go on")


def _schedules(state: Path | None) -> "Schedules":
    from crawler_lifecycle.control.control import Control

    return Control.open(state).schedules


def _print(details: "ScheduleDetails", *, as_json: bool) -> None:
    from crawler_lifecycle.cli.schedule_lines import details_lines

    if as_json:
        return print_json(details)
    for line in details_lines(plain(details)):
        click.echo(line)
    return None
