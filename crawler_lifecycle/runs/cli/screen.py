"""Shows the progress of a run: drawn in place on a terminal, and as plain lines elsewhere.

The lines show the present state at a glance, the latest changes, and the latest stop.
"""

import asyncio
import re
import shutil
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import click

from crawler_lifecycle.base.pacing import look_time
from crawler_lifecycle.base.words import counted
from crawler_lifecycle.console.common import plain
from crawler_lifecycle.console.words import coloured, counts, duration, rfc3339, waiting_words
from crawler_lifecycle.limits.cli import permit_words, was_held
from crawler_lifecycle.model import reasons
from crawler_lifecycle.model.records import LogRecord, RunDetails, RunRecord, RunSummary, TaskRecord
from crawler_lifecycle.model.states import RunStatus, StopPhase, TaskStatus
from crawler_lifecycle.runs.cli.list_lines import coloured_status, time_taken, why

LATE_AFTER = timedelta(seconds=90)  # tolerance for a look after its due time
PASSING = (reasons.MAIN_JOB, reasons.DISPATCHER, reasons.STARTING)  # causes on the usual way to a running task
REQUESTS = ("stop", "force stop")  # events in the timeline for requests to stop
PHASES: dict[str, str] = {  # event in the timeline -> words for the phase
    StopPhase.QUEUED_CANCELLED: "queue emptied", StopPhase.JOBS_ASKED: "jobs asked to end",
    StopPhase.FORCED: "jobs killed", StopPhase.PROVED: "confirmed stopped",
}  # fmt: skip
ANSI = re.compile(r"\x1b\[[0-9;]*m")  # a colour's control sequence, which takes no column
REDRAW_SECONDS = 1.0  # the shown durations grow even if the run does not change
LEAST_TASKS = 4  # tasks shown even if the terminal has too few rows
LINES_OF_RUN = 8  # usual number of lines above the tasks; a stop adds lines


def stop_lines(details: RunDetails) -> Iterator[str]:
    """Yield a line for every request of the latest stop, with actor and door, and a line for every phase, with the time
    since the phase before or, for the first phase, since the first request.
    """
    requested_at: datetime | None = None
    previous_phase_at: datetime | None = None
    timeline = _since_last_reopening(details.log)
    is_proved = any(line.event == StopPhase.PROVED for line in timeline)
    for line in timeline:
        if line.event in REQUESTS:
            requester = ", ".join(part for part in (line.actor, line.door) if part)
            yield f"{line.event} asked {rfc3339(line.at)} by {requester or 'an unnamed caller'}: {line.message}"
            requested_at = requested_at or line.at
        elif line.event in PHASES:
            time = line.at - (previous_phase_at or requested_at or line.at)
            yield f"{PHASES[line.event]} after {time.total_seconds():.1f} s: {line.message}"
            previous_phase_at = line.at
        elif line.event == StopPhase.UNCONFIRMED:
            yield f"not confirmed: {line.message}"
    if requested_at and not is_proved and not details.run.status.is_over:
        yield "not confirmed yet: a job may still be running"


def _since_last_reopening(log: Sequence[LogRecord]) -> Sequence[LogRecord]:
    """Return the timeline's lines from the last reopening on: earlier stops belong to an earlier end."""
    reopenings = [number for number, line in enumerate(log) if line.event == "reopened"]
    return log[reopenings[-1] :] if reopenings else log


def progress_lines(details: RunDetails, now: datetime, most_tasks: int, *, verbose: bool = False) -> Iterator[str]:
    """Yield the run's present state, with at most `most_tasks` tasks; `verbose`: with the stage and the next look."""
    run = details.run
    took = duration(time_taken(run, now))
    yield f"{click.style(f'run {run.run_id}', bold=True)}  {run.crawler}  {coloured_status(run)}  {took}"
    if verbose:
        yield f"  stage     {stage(details)}"
    if explanation := why(run):
        yield f"  why       {explanation}"
    if words := situation(details):
        yield f"  {words}"
    if not run.status.is_over and (verbose or _is_late(run, now)):
        yield f"  next look {_next_look(run, now)}"
    for line in stop_lines(details):
        yield f"  stop      {line}"
    if run.look_problem:
        yield f"  cluster   last seen {rfc3339(run.last_look_at)}: {run.look_problem}"
    for task in details.tasks[:most_tasks]:
        yield f"  {task_line(task, now)}"
    if len(details.tasks) > most_tasks:
        yield f"  ... {counts(run.tasks)}"


def change_lines(before: RunDetails | None, after: RunDetails, *, verbose: bool = False) -> Iterator[str]:
    """Yield a line for every change, for an output in which earlier lines stay. `before` is None at the first call.

    `verbose`: with the stages, the waits for the main job, and the next looks.
    """
    run = after.run
    old_run = before.run if before else None
    if before is None or _state(before, verbose=verbose) != _state(after, verbose=verbose):
        words = (f"stage {stage(after)}" if verbose else None, situation(after))
        yield f"run {run.run_id}  {coloured_status(run)}  {', '.join(filter(None, words))}".rstrip()
    if why(run) and (old_run is None or why(old_run) != why(run)):
        yield f"run {run.run_id}  why: {why(run)}"
    old_tasks = {task.task: _state_of_task(task, verbose=verbose) for task in before.tasks} if before else {}
    unchanged_new_task = (TaskStatus.QUEUED, None)  # a task in the queue gets no line until its first change
    for task in after.tasks:
        if _state_of_task(task, verbose=verbose) != old_tasks.get(task.task, unchanged_new_task):
            yield f"run {run.run_id}  {task_line(task, after.run.finished_at or datetime.now(UTC))}"
    next_look = rfc3339(next_look_at(run))  # "-" before the main job has started
    old_next_look = rfc3339(next_look_at(old_run)) if old_run else "-"
    if verbose and not run.status.is_over and next_look != old_next_look:
        yield f"run {run.run_id}  next look {next_look}, or as soon as a task changes"
    old_stop_lines = set(stop_lines(before)) if before else set()
    yield from (f"run {run.run_id}  {line}" for line in stop_lines(after) if line not in old_stop_lines)
    if run.look_problem and (old_run is None or old_run.look_problem != run.look_problem):
        yield f"run {run.run_id}  cluster last seen {rfc3339(run.last_look_at)}: {run.look_problem}"


def _state(details: RunDetails, *, verbose: bool) -> tuple[object, ...]:
    run = details.run
    cause = run.waiting_cause if verbose or run.waiting_cause not in PASSING else None
    return run.status, stage(details) if verbose else None, cause


def _state_of_task(task: TaskRecord, *, verbose: bool) -> tuple[object, ...]:
    cause = task.cause if verbose or task.cause not in PASSING else None
    return task.status, cause


def stage(details: RunDetails) -> str:
    """Return the run's stage: a number from 1 to 4 with its name, or `stopping`."""
    run = details.run
    if run.status.is_over:
        return "4/4 completion"
    if run.status is RunStatus.STOPPING:
        return "stopping"
    if run.status is not RunStatus.INITIALIZING:
        return "3/4 reconciliation"
    is_queued = not details.tasks or details.tasks[0].status is TaskStatus.QUEUED
    return "1/4 initiation" if is_queued else "2/4 deployment"


def situation(details: RunDetails) -> str | None:
    """Return the awaited event or the number of running tasks; None if the run is over and exported."""
    run = details.run
    if run.status.is_over:
        pending = [export.kind for export in details.exports if export.state == "pending"]
        return f"waits for its export ({', '.join(pending)})" if pending else None
    hold = permit_words(run, details.place)
    cause = None if run.waiting_cause in PASSING else cause_of(run)
    if hold or cause:
        return f"queued: {hold}" if hold else f"waits for {cause}"
    if run.status is RunStatus.INITIALIZING:
        return "waits for the main job"
    is_open = [not task.status.is_over for task in details.tasks]
    if run.status is RunStatus.STOPPING:
        ends = f"for the end of {sum(is_open)} of {counted(len(is_open), 'task')}"
        return f"waits {ends if any(is_open) else 'until its last job is confirmed gone'}"
    if not any(is_open):
        return "waits for the last look"
    is_running = [task.status is TaskStatus.RUNNING for task in details.tasks]
    return f"{sum(is_running)} of {counted(len(is_running), 'task')} running"


def cause_of(run: RunSummary) -> str | None:
    """Return why the run waits: the cause, its message and its beginning. None: no cause is recorded, or the run is
    queued for a permit.
    """
    if run.waiting_cause is None or was_held(run):
        return None
    message = f": {run.waiting_message}" if run.waiting_message else ""
    return f"{run.waiting_cause}{message} (since {rfc3339(run.waiting_since)})"


def _is_late(run: RunRecord, now: datetime) -> bool:
    due = next_look_at(run)
    return due is not None and now - due > LATE_AFTER


def _next_look(run: RunRecord, now: datetime) -> str:
    due = next_look_at(run)
    if due is None:
        return "when the main job has started"
    if _is_late(run, now):
        remedies = f"check its worker (crawlctl doctor) and its workflow (crawlctl resume {run.run_id})"
        return f"late since {rfc3339(due)}: {remedies}"
    time_left = f"in {duration(due - now)}" if due > now else "now"
    return f"{time_left} ({rfc3339(due)}), or as soon as a task changes"


def next_look_at(run: RunRecord) -> datetime | None:
    """Return the time of the next look. Each look records this time; the first look's time follows from the start.

    None: the main job has not started, or the run is over (the run's end deletes the recorded time).
    """
    if run.status.is_over or run.next_look_at:
        return run.next_look_at
    return look_time(run.started_at, 1) if run.started_at else None


def task_line(task: TaskRecord, now: datetime) -> str:
    """Return a line with the task's name, status and duration, and its reason or cause."""
    name = "task 0 (main)" if task.task == 0 else f"task {task.task}"
    parts = [f"{name:14}", coloured(task.status, 9)]
    if task.started_at:
        parts.append(duration((task.finished_at or now) - task.started_at))
    if task.reason and task.status is not TaskStatus.SUCCEEDED:
        parts.append(task.reason)
    if task.cause and not task.status.is_over:
        parts.append(waiting_words(task.cause))
    return "  ".join(parts).rstrip()


async def follow(changes: AsyncIterator[RunDetails], *, verbose: bool = False) -> RunDetails:
    """Show every change, on a terminal in place, otherwise as plain lines. Return the last state of the run."""
    if sys.stdout.isatty():
        return await _draw(changes, verbose=verbose)
    last: RunDetails | None = None
    async for details in changes:
        shown: RunDetails = plain(details)  # without control characters, which a crawl may have printed
        for line in change_lines(last, shown, verbose=verbose):
            click.echo(" ".join(line.splitlines()))
        last = shown
    assert last is not None, "a watched run is there at least once"
    return last


async def _draw(changes: AsyncIterator[RunDetails], *, verbose: bool) -> RunDetails:
    """Draw the run at every change and every REDRAW_SECONDS. Return the last state of the run."""
    screen = Screen()
    last: RunDetails | None = None
    next_change = asyncio.ensure_future(anext(changes))
    try:
        with suppress(StopAsyncIteration):  # raised by `result` after the last change
            while True:
                await asyncio.wait([next_change], timeout=REDRAW_SECONDS)
                if next_change.done():
                    last = plain(next_change.result())
                    next_change = asyncio.ensure_future(anext(changes))
                if last is not None:
                    screen.show(progress_lines(last, datetime.now(UTC), _tasks_that_fit(), verbose=verbose))
    finally:
        next_change.cancel()
    assert last is not None, "a watched run is there at least once"
    return last


class Screen:
    """Lines on a terminal. A further `show` replaces the lines."""

    def __init__(self) -> None:
        self._height = 0

    def show(self, lines: Iterable[str]) -> None:
        width = shutil.get_terminal_size().columns
        shown = [_cut(line, width) for line in lines]
        cursor_up = f"\x1b[{self._height}F" if self._height else ""
        clear_below = "\x1b[J"
        sys.stdout.write(cursor_up + clear_below)
        click.echo("\n".join(shown))
        self._height = len(shown)


def _tasks_that_fit() -> int:
    """Return how many tasks fit under the run's own lines."""
    return max(LEAST_TASKS, shutil.get_terminal_size().lines - LINES_OF_RUN)


def _cut(line: str, width: int) -> str:
    """Return the line cut to the width, since a wrapped line would push the next lines down.

    A cut line loses its colours: a control sequence that is cut would spoil the terminal.
    """
    line = " ".join(line.splitlines())
    visible = ANSI.sub("", line)
    return line if len(visible) <= width else visible[: width - 1] + "…"
