"""The commands for schedules: create, list, show, pause, resume, trigger, backfill, delete."""

import asyncio
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crawler_lifecycle.cli.common import (
    Duration,
    open_access,
    open_control,
    print_answer,
    print_json,
    standard_options,
    user_name,
)
from crawler_lifecycle.cli.dashes import CommandWithDashes, words_in_front
from crawler_lifecycle.cli.failures import Commands
from crawler_lifecycle.cli.remote.choice import open_api
from crawler_lifecycle.cli.requests import Arguments, make_schedule, record_options, run_options
from crawler_lifecycle.domain.words import counted
from crawler_lifecycle.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crawler_lifecycle.cli.access import ScheduleAccess
    from crawler_lifecycle.contract.flows.definition import FlowDefinition
    from crawler_lifecycle.contract.schedules import Backfilled, ScheduleDetails, ScheduledManager, Triggered

OVERLAPS = ("skip", "queue", "replace", "allow")  # explained in the help of --overlap
TIME = click.DateTime(["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M%z", "%Y-%m-%d"])
schedule_argument = click.argument("schedule_id", metavar="SCHEDULE")


@click.group(cls=Commands)
def schedule() -> None:
    """Start runs and flows by the clock.

    \b
    Start with:
      crawlctl schedule create nightly bookshop --cron "0 3 * * *" --time-zone Europe/Berlin
      crawlctl schedule show nightly      its next times, and the outcomes of its last occurrences
    """


@schedule.command(cls=CommandWithDashes)
@schedule_argument
@click.argument("crawler", required=False)
@click.option(
    "--flow",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Start flows in place of runs: a Python file with a workflow, or a definition as JSON.",
)
@click.option(
    "--manager", metavar="TARGET", help="Start a crawl manager in place of runs, as for `crawlctl flow start`."
)
@click.argument("manager_arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--cron", multiple=True, help="Five fields, or for example @daily; repeatable.")
@click.option("--every", type=Duration(), help="Instead of --cron, e.g. 6h: counted from 1970-01-01 in UTC.")
@click.option("--offset", type=Duration(), default=0, help="Shifts --every, e.g. 15m.")
@click.option("--time-zone", default="UTC", show_default=True, help="Time zone of --cron.")
@click.option("--jitter", type=Duration(), default=0, help="Longest random delay, e.g. 5m.")
@click.option(
    "--overlap",
    type=click.Choice(OVERLAPS),
    default="skip",
    show_default=True,
    help="While an earlier run is open: skip the occurrence; start after that run; stop that run first; start beside.",
)
@click.option(
    "--missed-window",
    type=Duration(),
    help="Longest delay of a late start; default: 1h, or 1d with --overlap queue or replace.",
)
@click.option("--paused", is_flag=True, help="Make a paused schedule.")
@click.option("--replace", is_flag=True, help="Change the existing SCHEDULE; a paused schedule stays paused.")
@run_options
@click.option("--requested-by", help="Name for the record; default: your login name.")
@standard_options
def create(
    schedule_id: str,
    crawler: str | None,
    file: Path | None,
    manager: str | None,
    manager_arguments: tuple[str, ...],
    arguments: Arguments,
    state: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Start runs of CRAWLER, the flow in a file, or a crawl manager by the clock, under the name SCHEDULE.

    MANAGER_ARGUMENTS are the command line of a manager, behind `--`. Its flow id (family) is the schedule's name.

    As in Temporal, a cron line with a day of the month and a day of the week applies when both days fit.

    \b
    Examples:
      crawlctl schedule create nightly bookshop --cron "0 3 * * *" --time-zone Europe/Berlin
      crawlctl schedule create news newsroom --every 15m --jitter 1m --overlap queue --arg section=world
      crawlctl schedule create weekly bookshop --cron "30 4 * * mon" --overlap replace --paused
      crawlctl schedule create weekly bookshop --cron "30 5 * * mon" --replace
      crawlctl schedule create shops --flow shops_graph.py --cron "0 3 * * *"
      crawlctl schedule create monthly --manager shops --cron "0 3 1 * *" -- --max-running-jobs 8
    """
    replace = options.pop("replace")
    if manager is None and crawler is not None and manager_arguments:
        raise BadInput("manager_arguments", "are for crawl managers (--manager)")
    flow = None
    if manager is not None:
        if crawler is not None:  # the first word behind `--`
            manager_arguments, crawler = (crawler, *manager_arguments), None
        if in_front := words_in_front(manager_arguments):
            raise BadInput(
                "CRAWLER",
                f"{in_front[0]!r} is not for --manager, whose arguments stand behind `--`: leave the word out",
            )
        with _refusals_with_name_of_arguments():
            flow = _manager_of(manager, schedule_id, manager_arguments, state)
    request = make_schedule(schedule_id, crawler, file, flow, arguments, options)
    schedules = _schedules(state)
    change = schedules.replace(request) if replace else schedules.create(request, actor=user_name())
    _print(asyncio.run(change), as_json=as_json)


@contextmanager
def _refusals_with_name_of_arguments() -> "Iterator[None]":
    """Name the manager's arguments in a refusal: the field `arguments` belongs to a run's option --arg."""
    try:
        yield
    except BadInput as error:
        if error.field != "arguments":
            raise
        raise BadInput("MANAGER_ARGUMENTS", error.expected) from error


def _manager_of(
    target: str, schedule_id: str, words: tuple[str, ...], state: Path | None
) -> "FlowDefinition | ScheduledManager":
    """Return the flow for a crawl manager by its class or its file; a name in the catalogue stays a name."""
    from crawler_lifecycle.cli.flow_starting import check_arguments, definition_for
    from crawler_lifecycle.contract.requests import refusals_as_bad_input
    from crawler_lifecycle.contract.schedules import ScheduledManager

    if ":" in target or target.endswith(".py"):
        return definition_for(target, words, schedule_id, None, "default")
    with refusals_as_bad_input():
        scheduled = ScheduledManager(name=target, arguments=list(words))
    if open_api(state) is None:
        flows = open_control(state).flows
        check_arguments(asyncio.run(flows.definition_of_manager(target, schedule_id, words)))
    return scheduled


@schedule.command("list")
@standard_options
def list_schedules(state: Path | None, as_json: bool) -> None:
    """List the schedules by name.

    \b
    Examples:
      crawlctl schedule list
      crawlctl schedule list --json | jq -r '.[] | select(.paused) | .schedule_id'
    """
    from crawler_lifecycle.cli.schedule_lines import list_lines

    schedules = asyncio.run(_schedules(state).list())
    print_answer(schedules, list_lines, as_json=as_json)
    if not schedules and not as_json:
        click.echo("No schedules.")


@schedule.command()
@schedule_argument
@click.option(
    "--last", type=click.IntRange(0, 500), default=10, show_default=True, help="Number of latest occurrences."
)
@click.option("--before", type=TIME, help="Only occurrences before this time; default: now.")
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
    before = _in_utc(before) if before else None
    details = asyncio.run(_schedules(state).show(schedule_id, occurrences=last, before=before))
    _print(details, as_json=as_json, with_occurrences=last > 0, before=before)


@schedule.command()
@schedule_argument
@record_options
@standard_options
def pause(schedule_id: str, reason: str | None, actor: str | None, state: Path | None, as_json: bool) -> None:
    """Let no occurrence of SCHEDULE start until a resume. Runs under way go on.

    \b
    Example:
      crawlctl schedule pause nightly --reason "the site is being rebuilt"
    """
    pausing = _schedules(state).pause(schedule_id, actor=actor or user_name(), reason=reason)
    _print(asyncio.run(pausing), as_json=as_json)


@schedule.command()
@schedule_argument
@record_options
@standard_options
def resume(schedule_id: str, reason: str | None, actor: str | None, state: Path | None, as_json: bool) -> None:
    """Resume SCHEDULE. Occurrences in the pause stay skipped; `backfill` starts them."""
    resuming = _schedules(state).resume(schedule_id, actor=actor or user_name(), reason=reason)
    _print(asyncio.run(resuming), as_json=as_json)


@schedule.command()
@schedule_argument
@standard_options
def trigger(schedule_id: str, state: Path | None, as_json: bool) -> None:
    """Start an occurrence of SCHEDULE now, also while SCHEDULE is paused. Its overlap policy holds.

    The exit status is 0 also for an occurrence that an open run makes Temporal skip; the answer says so.
    """
    triggered = asyncio.run(_schedules(state).trigger(schedule_id))
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
@click.option("--from", "since", type=TIME, required=True, help="Begin, e.g. 2026-11-01T00:00Z.")
@click.option("--to", "until", type=TIME, help="End; default: now.")
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
    since, until = _in_utc(since), _in_utc(until or datetime.now(UTC))
    backfilled = asyncio.run(_schedules(state).backfill(schedule_id, since, until, at_once=at_once))
    order = "at once" if at_once else "one after another"
    print_answer(backfilled, partial(_backfill_lines, order), as_json=as_json)


def _backfill_lines(order: str, backfilled: "Backfilled") -> "Iterator[str]":
    from crawler_lifecycle.cli.words import rfc3339

    occurrences = counted(len(backfilled.occurrences), "past occurrence")
    yield f"schedule {backfilled.schedule_id}: runs are started {order} for {occurrences}:"
    yield from (f"  {rfc3339(moment)}" for moment in backfilled.occurrences)


def _in_utc(moment: datetime) -> datetime:
    """Return the time; a time without a zone is taken as UTC."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@schedule.command()
@schedule_argument
@standard_options
def delete(schedule_id: str, state: Path | None, as_json: bool) -> None:
    """Delete SCHEDULE. Runs under way go on, and earlier runs stay on record."""
    asyncio.run(_schedules(state).delete(schedule_id))
    if as_json:
        print_json({"schedule_id": schedule_id, "deleted": True})
    else:
        click.echo(f"schedule {schedule_id} is deleted; runs under way go on")


def _schedules(state: Path | None) -> "ScheduleAccess":
    return open_access(state).schedules


def _print(
    details: "ScheduleDetails", *, as_json: bool, with_occurrences: bool = True, before: datetime | None = None
) -> None:
    from crawler_lifecycle.cli.schedule_lines import details_lines

    lines = partial(details_lines, with_occurrences=with_occurrences, before=before)
    print_answer(details, lines, as_json=as_json)
