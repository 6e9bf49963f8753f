"""How does a schedule look as text? Pure: records in, lines out."""

import shlex
from collections.abc import Iterator, Sequence
from datetime import timedelta

import click

from crawler_lifecycle.cli.render import coloured, duration
from crawler_lifecycle.cli.times import rfc3339
from crawler_lifecycle.contract.schedules import Occurrence, Outcome, ScheduleDetails, ScheduleSummary
from crawler_lifecycle.domain.words import counted

COLUMNS = ("SCHEDULE", "CRAWLER", "WHEN", "STATE", "NEXT", "LAST START")
COLOURS = {Outcome.STARTED: "green", Outcome.SKIPPED: "yellow", Outcome.UNKNOWN: "red", Outcome.QUEUED: "cyan"}
NEXT_TIMES = 3


def list_lines(schedules: Sequence[ScheduleSummary]) -> Iterator[str]:
    rows = [COLUMNS, *(_row(each) for each in schedules)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _row(schedule: ScheduleSummary) -> tuple[str, ...]:
    state = "paused" if schedule.paused else "going"
    following = rfc3339(schedule.next_at[0]) if schedule.next_at else "-"
    last = rfc3339(schedule.last_started_at)
    return schedule.schedule_id, schedule.crawler or "-", when(schedule), state, following, last


def when(schedule: ScheduleSummary) -> str:
    parts = [f"{line} {schedule.time_zone}" for line in schedule.cron]
    if schedule.every_seconds:
        parts.append(f"every {_duration(schedule.every_seconds)}")
    if schedule.offset_seconds:
        parts.append(f"+ {_duration(schedule.offset_seconds)}")
    if schedule.jitter_seconds:
        parts.append(f"jitter {_duration(schedule.jitter_seconds)}")
    return ", ".join(parts) or "-"


def details_lines(details: ScheduleDetails) -> Iterator[str]:
    yield from _facts(details)
    yield ""
    yield click.style("Occurrences", bold=True)
    for each in details.occurrences:
        yield f"  {_occurrence(each)}"
    if not details.occurrences:
        yield "  none was due by the present rules"
        if details.counts.started:
            runs = f"crawlctl list --crawler {shlex.quote(details.crawler)}" if details.crawler else "crawlctl list"
            starts = counted(details.counts.started, "start")
            yield f"  the {starts} came by a trigger, a backfill or earlier rules: {runs}"


def _facts(details: ScheduleDetails) -> Iterator[str]:
    state = click.style("paused", fg="yellow") if details.paused else "going"
    yield f"{click.style(f'schedule {details.schedule_id}', bold=True)}  {details.crawler or '-'}  {state}"
    run, counts = details.run, details.counts
    arguments = " ".join(f"{name}={value}" for name, value in run.arguments.items()) if run else ""
    pause = details.pauses[-1] if details.paused and details.pauses else None
    skipped = f"{counts.skipped_overlap} because of overlap, {counts.skipped_missed_window} too late"
    for name, value in (
        ("when", when(details)),
        ("overlap", details.overlap or "other"),
        ("missed window", _duration(details.missed_window_seconds)),
        ("arguments", arguments),
        ("requested by", run.requested_by if run else None),
        ("made", rfc3339(details.created_at)),
        ("paused", pause and f"since {rfc3339(pause.since)}, by {pause.actor or '-'}: {pause.reason or '-'}"),
        ("next", ", ".join(rfc3339(each) for each in details.next_at[:NEXT_TIMES])),
        ("started", str(counts.started)),
        ("skipped", skipped),
        ("queued", str(counts.queued) if counts.queued else None),
        ("open", ", ".join(details.open_workflows)),
    ):
        if value:
            yield f"  {name:13} {value}"


def _occurrence(each: Occurrence) -> str:
    outcome = click.style(each.outcome.ljust(8), fg=COLOURS.get(each.outcome))
    parts = [f"{rfc3339(each.at)}  {outcome}"]
    if each.run_id is not None:
        parts.append(f"run {each.run_id} {coloured(each.run_status or '')}")
    elif each.workflow_id:
        parts.append(f"workflow {each.workflow_id}")
    if each.reason:
        parts.append(each.reason)
    if each.detail:
        parts.append(each.detail)
    return "  ".join(parts)


def _duration(seconds: int) -> str:
    return duration(timedelta(seconds=seconds))
