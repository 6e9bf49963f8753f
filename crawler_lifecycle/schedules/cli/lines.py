"""Parts for all commands with schedules: the client, the argument SCHEDULE, the write, and the lines of the answers."""

import asyncio
import shlex
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import click
from click.shell_completion import CompletionItem

from crawler_lifecycle.base.words import counted
from crawler_lifecycle.console.common import open_connection, print_answer
from crawler_lifecycle.console.completion import completed_by
from crawler_lifecycle.console.words import coloured, duration, facts, moment_text, named, rfc3339, table
from crawler_lifecycle.flows.cli.options import needs_installation
from crawler_lifecycle.schedules.model import (
    Occurrence,
    OccurrenceOutcome,
    ScheduleCommand,
    ScheduleDetails,
    ScheduleSummary,
)

if TYPE_CHECKING:
    from crawler_lifecycle.schedules.client import ApiSchedules
    from crawler_lifecycle.schedules.commands.schedule_commands import ScheduleCommands
    from crawler_lifecycle.schedules.model import ManagerSchedule, ScheduleDetails, ScheduleRequest
    from crawler_lifecycle.transport.connection import HttpConnection

COLUMNS = ("SCHEDULE", "STARTS", "WHEN", "STATE", "NEXT", "LAST START")
COLOURS = {
    OccurrenceOutcome.STARTED: "green",
    OccurrenceOutcome.SKIPPED: "yellow",
    OccurrenceOutcome.UNKNOWN: "red",
    OccurrenceOutcome.QUEUED: "cyan",
}
NEXT_TIMES = 3  # next due times that are shown
SHOWN_COMMANDS = 3


def list_lines(schedules: Sequence[ScheduleSummary], now: datetime, width: int | None = None) -> Iterator[str]:
    return table([COLUMNS, *(_row(schedule, now, width) for schedule in schedules)])


def _row(schedule: ScheduleSummary, now: datetime, width: int | None) -> tuple[str, ...]:
    return (
        schedule.schedule_id,
        _subject(schedule),
        _times(schedule),
        "paused" if schedule.paused else "active",
        moment_text(schedule.next_at[0] if schedule.next_at else None, now, width),
        moment_text(schedule.last_started_at, now, width),
    )


def _subject(schedule: ScheduleSummary) -> str:
    return f"flow {schedule.flow_id}" if schedule.flow_id else schedule.crawler or "-"


def _command(command: ScheduleCommand) -> str:
    return f"{command.command} at {rfc3339(command.at)} by {command.actor or '-'} ({command.door})"


def _times(schedule: ScheduleSummary) -> str:
    """Return when the schedule starts runs, for example `0 3 * * * UTC, jitter 5m00s`."""
    parts = [f"{line} {schedule.time_zone}" for line in schedule.cron]
    if schedule.every_seconds:
        parts.append(f"every {_duration(schedule.every_seconds)}")
    if schedule.offset_seconds:
        parts.append(f"+ {_duration(schedule.offset_seconds)}")
    if schedule.jitter_seconds:
        parts.append(f"jitter {_duration(schedule.jitter_seconds)}")
    return ", ".join(parts) or "-"


def details_lines(
    details: ScheduleDetails, *, with_occurrences: bool = True, before: datetime | None = None
) -> Iterator[str]:
    """Yield the schedule and its occurrences; with `before`, the occurrences were due before this time."""
    yield from _facts(details)
    if with_occurrences:
        yield ""
        yield click.style("Occurrences", bold=True)
        yield from (f"  {_occurrence(occurrence)}" for occurrence in details.occurrences)
        if not details.occurrences:
            yield from (f"  {line}" for line in _lines_without_occurrences(details, before))
        if details.other_starts:
            yield ""
            yield click.style("Starts by a trigger, a backfill or earlier rules", bold=True)
            yield from (f"  {_occurrence(start)}" for start in details.other_starts)


def _lines_without_occurrences(details: ScheduleDetails, before: datetime | None) -> Iterator[str]:
    """Say that no occurrence was due, and name the command that lists the runs or flows from further starts."""
    if before:
        yield f"none was due before {rfc3339(before)} by the present rules"
        return
    yield "none was due by the present rules"
    if details.counts.started:
        runs = f"crawlctl list --crawler {shlex.quote(details.crawler)}" if details.crawler else "crawlctl list"
        if details.flow:
            runs = f"crawlctl flow list --family {shlex.quote(details.flow.family or details.schedule_id)}"
        starts = counted(details.counts.started, "start")
        yield f"the {starts} came by a trigger, a backfill or earlier rules: {runs}"


def _facts(details: ScheduleDetails) -> Iterator[str]:
    state = click.style("paused", fg="yellow") if details.paused else "active"
    yield f"{click.style(f'schedule {details.schedule_id}', bold=True)}  {_subject(details)}  {state}"
    run, counts = details.run, details.counts
    pause = details.pauses[-1] if details.paused and details.pauses else None
    skipped = f"{counts.skipped_overlap} because of overlap, {counts.skipped_missed_window} too late"
    yield from facts(
        [
            ("when", _times(details)),
            ("overlap", details.overlap or "other"),
            ("missed window", _duration(details.missed_window_seconds)),
            ("arguments", named(run.arguments) if run else None),
            ("settings", named(run.settings) if run else None),
            ("labels", ", ".join(run.labels) if run else ""),
            ("priority", run.priority if run else None),
            ("requested by", run.requested_by if run else None),
            ("made", rfc3339(details.created_at)),
            ("paused", pause and f"since {rfc3339(pause.since)}, by {pause.actor or '-'}: {pause.reason or '-'}"),
            ("next", ", ".join(rfc3339(moment) for moment in details.next_at[:NEXT_TIMES])),
            ("started", str(counts.started)),
            ("skipped", skipped),
            ("queued", str(counts.queued) if counts.queued else None),
            ("open", ", ".join(details.open_workflows)),
            ("commands", "; ".join(map(_command, details.commands[:SHOWN_COMMANDS]))),
        ]
    )


def _occurrence(occurrence: Occurrence) -> str:
    outcome = click.style(occurrence.outcome.ljust(8), fg=COLOURS.get(occurrence.outcome))
    parts = [f"{rfc3339(occurrence.at)}  {outcome}"]
    if occurrence.flow_id is not None:
        parts.append(f"flow {occurrence.flow_id} {coloured(occurrence.flow_state or '')}")
    elif occurrence.run_id is not None:
        parts.append(f"run {occurrence.run_id} {coloured(occurrence.run_status or '')}")
    elif occurrence.workflow_id:
        parts.append(f"workflow {occurrence.workflow_id}")
    if occurrence.reason:
        parts.append(occurrence.reason)
    if occurrence.detail:
        parts.append(occurrence.detail)
    return "  ".join(parts)


def _duration(seconds: int) -> str:
    return duration(timedelta(seconds=seconds))


def open_schedules(state: Path | None) -> "ApiSchedules":
    from crawler_lifecycle.schedules.client import ApiSchedules

    return ApiSchedules(open_connection(state))


def _schedules(connection: "HttpConnection") -> Iterator[CompletionItem]:
    from crawler_lifecycle.schedules.client import ApiSchedules

    return (CompletionItem(schedule.schedule_id) for schedule in ApiSchedules(connection).list())


schedule_argument = click.argument("schedule_id", metavar="SCHEDULE", shell_complete=completed_by(_schedules))


class DirectSchedules(Protocol):
    """The installation itself, for crawl managers by their classes."""

    @property
    def schedules(self) -> "ScheduleCommands": ...


OpenDirect = Callable[[Path | None, str | None], DirectSchedules]  # with the state folder, and the recorded actor


def write_schedule(
    request: "ScheduleRequest | ManagerSchedule",
    open_direct: OpenDirect,
    state: Path | None,
    actor: str,
    *,
    replace: bool,
) -> "ScheduleDetails":
    """Create or replace the schedule, directly for a crawl manager by its class."""
    from crawler_lifecycle.schedules.model import ScheduleRequest

    definition = request.flow if isinstance(request, ScheduleRequest) else None
    if definition is not None and needs_installation(definition, state):
        commands = open_direct(state, actor).schedules
        return asyncio.run(commands.replace(request) if replace else commands.create(request))
    schedules = open_schedules(state)
    return schedules.replace(request, actor=actor) if replace else schedules.create(request, actor=actor)


def print_schedule(
    details: "ScheduleDetails", *, as_json: bool, with_occurrences: bool = True, before: datetime | None = None
) -> None:
    lines = partial(details_lines, with_occurrences=with_occurrences, before=before)
    print_answer(details, lines, as_json=as_json)
