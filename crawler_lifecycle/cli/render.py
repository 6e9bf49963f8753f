"""Runs as text. Pure: records in, lines out."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import click

from crawler_lifecycle.cli.audit_lines import finding_lines
from crawler_lifecycle.cli.stop_lines import stop_lines
from crawler_lifecycle.cli.times import rfc3339
from crawler_lifecycle.contract.deployment import Crawler
from crawler_lifecycle.contract.records import ExportRecord, RunDetails, RunRecord, RunSummary, TaskRecord
from crawler_lifecycle.contract.states import RunStatus, TaskStatus
from crawler_lifecycle.contract.steps.evidence import LOG_NOT_READ
from crawler_lifecycle.domain.pacing import look_time

COLOURS = {
    "COMPLETED": "green", "SUCCEEDED": "green", "FAILED": "red", "LOST": "red", "STOPPED": "yellow",
    "STOPPING": "yellow", "PROCESSING": "cyan", "RUNNING": "cyan",
}  # fmt: skip
CRAWLER_COLUMNS = ("CRAWLER", "PROCESSES", "AT ONCE", "START LIMIT", "MAX DURATION", "GRACE")
OVERDUE = timedelta(seconds=90)
LAST_LINES = 3
LONGEST_WHY = 80  # characters in a list
COLUMNS = ("RUN", "CRAWLER", "STATUS", "REASON", "TASKS", "TRIGGER", "CREATED", "TOOK", "WHY")


def duration(time: timedelta) -> str:
    seconds = max(0, int(time.total_seconds()))
    hours, minutes = seconds // 3600, seconds // 60 % 60
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{seconds % 60:02}s" if minutes else f"{seconds}s"


def coloured(status: str, width: int = 0) -> str:
    return click.style(status.ljust(width), fg=COLOURS.get(status))


def counts(tasks: Mapping[TaskStatus, int]) -> str:
    return ", ".join(f"{tasks[status]} {status}" for status in TaskStatus if tasks.get(status)) or "none"


def list_lines(runs: Sequence[RunSummary], now: datetime) -> Iterator[str]:
    return _table([COLUMNS, *(_row(run, now) for run in runs)], coloured_column=2)


def crawler_lines(crawlers: Sequence[Crawler]) -> Iterator[str]:
    return _table([CRAWLER_COLUMNS, *(_crawler_row(crawler) for crawler in crawlers)])


def _table(rows: Sequence[Sequence[str]], coloured_column: int | None = None) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        if number and coloured_column is not None:
            cells[coloured_column] = coloured(row[coloured_column], widths[coloured_column])
        yield "  ".join(cells).rstrip()


def _crawler_row(crawler: Crawler) -> tuple[str, ...]:
    limits = (crawler.start_limit_seconds, crawler.max_duration_seconds, crawler.grace_seconds)
    told = ("-" if limit is None else duration(timedelta(seconds=limit)) for limit in limits)
    return crawler.name, str(crawler.processes), str(crawler.max_parallel or "-"), *told


def _row(run: RunSummary, now: datetime) -> tuple[str, ...]:
    took = duration((run.finished_at or now) - run.created_at)
    shown = (run.run_id, run.crawler, run.status, run.reason or "-", counts(run.tasks), run.trigger)
    return (*(str(cell) for cell in shown), rfc3339(run.created_at), took, _shortened(why(run) or ""))


def why(run: RunSummary) -> str | None:
    """Return why the run ended, in one sentence; None while it is under way and if all of its tasks succeeded."""
    return " ".join(run.explanation.text.split()) if run.explanation else None


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_WHY else f"{text[: LONGEST_WHY - 1]}…"


def stage(details: RunDetails) -> str:
    """One of the four a run goes through, or its stop."""
    run = details.run
    if run.status.is_over:
        return "4/4 completion"
    if run.status is RunStatus.STOPPING:
        return "stopping"
    if run.status is not RunStatus.INITIALIZING:
        return "3/4 reconciliation"
    is_queued = not details.tasks or details.tasks[0].status is TaskStatus.QUEUED
    return "1/4 initiation" if is_queued else "2/4 deployment"


def waiting(details: RunDetails) -> str | None:
    """Return the cause of the wait and since when it lasts; None if nothing of the run is to come."""
    run = details.run
    if run.status.is_over:
        pending = [export.kind for export in details.exports if export.state == "pending"]
        return f"its export ({', '.join(pending)})" if pending else None
    if run.waiting_cause:
        return _cause(run)
    alive = [task for task in details.tasks if not task.status.is_over]
    if run.status is RunStatus.INITIALIZING or not alive:
        return "the main job" if run.status is RunStatus.INITIALIZING else "the last look"
    return f"{len(alive)} of {len(details.tasks)} tasks"


def progress_lines(details: RunDetails, now: datetime, most_tasks: int) -> Iterator[str]:
    """A run at a glance, of bounded height."""
    run = details.run
    took = duration((run.finished_at or now) - run.created_at)
    yield f"{click.style(f'run {run.run_id}', bold=True)}  {run.crawler}  {coloured(run.status)}  {took}"
    yield f"  stage     {stage(details)}"
    if reason := why(run):
        yield f"  why       {reason}"
    if cause := waiting(details):
        yield f"  waits for {cause}"
    if not run.status.is_over:
        yield f"  next look {_next_look(run, now)}"
    for line in stop_lines(details):
        yield f"  stop      {line}"
    if run.look_problem:
        yield f"  cluster   not seen since {rfc3339(run.last_look_at)}: {run.look_problem}"
    for task in details.tasks[:most_tasks]:
        yield f"  {_task_line(task, now)}"
    if len(details.tasks) > most_tasks:
        yield f"  ... {counts(run.tasks)}"


def _next_look(run: RunRecord, now: datetime) -> str:
    due = next_look_at(run)
    if due is None:
        return "when the main job has started"
    ahead = f"in {duration(due - now)}" if due > now else "now"
    if now - due > OVERDUE:
        ways = f"is its worker there (crawlctl doctor)? is its workflow (crawlctl resume {run.run_id})?"
        return f"overdue since {rfc3339(due)}: {ways}"
    return f"{ahead} ({rfc3339(due)}), or as soon as a task changes"


def next_look_at(run: RunRecord) -> datetime | None:
    """Written down by each look for the next; before the first one it follows from the start."""
    if run.status.is_over or run.next_look_at:
        return run.next_look_at
    return look_time(run.started_at, 1) if run.started_at else None


def _task_line(task: TaskRecord, now: datetime) -> str:
    name = "task 0 (main)" if task.task == 0 else f"task {task.task}"
    parts = [f"{name:14}", coloured(task.status, 9)]
    if task.started_at:
        parts.append(duration((task.finished_at or now) - task.started_at))
    if task.reason and task.status is not TaskStatus.SUCCEEDED:
        parts.append(task.reason)
    if task.cause and not task.status.is_over:
        parts.append(f"waits: {task.cause}")
    return "  ".join(parts).rstrip()


def details_lines(details: RunDetails, now: datetime) -> Iterator[str]:
    """Everything."""
    run = details.run
    yield from _facts(run)
    yield ""
    yield click.style("Tasks", bold=True)
    for task in details.tasks:
        exit_code = f"  exit {task.exit_code}" if task.exit_code is not None else ""
        attempt = f"  attempt {task.attempt}" if task.attempt > 1 else ""
        yield f"  {_task_line(task, now)}{exit_code}{attempt}"
        if task.status in (TaskStatus.FAILED, TaskStatus.LOST) or _was_seen_to_stop(task) or task.restarts:
            yield from (f"      {line}" for line in _circumstances(task))
            yield from (f"      | {line}" for line in _last_words(task))
            if task.log_tail or any(event.startswith(LOG_NOT_READ) for event in task.events):
                yield f"      all of it: crawlctl logs {run.run_id} --task {task.task}"
    if stops := list(stop_lines(details)):
        yield ""
        yield click.style("Stop", bold=True)
        yield from (f"  {line}" for line in stops)
    yield ""
    yield click.style("Exports", bold=True)
    yield from (f"  {export_line(export, run.end_number)}" for export in details.exports)
    if not details.exports:
        yield "  none yet" if run.status is not RunStatus.COMPLETED else "  none"
    if details.findings:
        yield ""
        yield click.style("Found by audits", bold=True)
        yield from (f"  {line}" for each in details.findings for line in finding_lines(each))
    yield ""
    yield click.style("Log", bold=True)
    for line in details.log:
        who = f" ({', '.join(part for part in (line.actor, line.door) if part)})" if line.actor or line.door else ""
        yield f"  {rfc3339(line.at)}  {line.event}: {line.message}{who}"


def _was_seen_to_stop(task: TaskRecord) -> bool:
    return task.status is TaskStatus.STOPPED and bool(task.message or task.log_tail or task.events)


def _circumstances(task: TaskRecord) -> Iterator[str]:
    if task.node:
        yield f"on {task.node}" + (f", restarted {task.restarts} times" if task.restarts else "")
    if task.message and task.log_tail:
        yield from task.message.splitlines()
    yield from task.events


def _last_words(task: TaskRecord) -> Sequence[str]:
    said = (task.log_tail or task.message or "").splitlines()
    return said[-LAST_LINES:]


def _facts(run: RunRecord) -> Iterator[str]:
    yield f"{click.style(f'run {run.run_id}', bold=True)}  {run.crawler}  {coloured(run.status)}"
    arguments = " ".join(f"{name}={value}" for name, value in run.request.arguments.items())
    for name, value in (
        ("reason", run.reason),
        ("why", why(run)),
        ("run_uid", run.run_uid),
        ("workflow", run.workflow_id),
        ("trigger", run.trigger),
        ("requested by", run.request.requested_by),
        ("arguments", arguments),
        ("tasks", counts(run.tasks)),
        ("cluster", run.cluster),
        ("intent", run.intent),
        ("created", rfc3339(run.created_at)),
        ("started", rfc3339(run.started_at)),
        ("finished", rfc3339(run.finished_at)),
        ("last look", rfc3339(run.last_look_at)),
        ("next look", None if run.status.is_over else rfc3339(next_look_at(run))),
        ("waits for", None if run.status.is_over else _cause(run)),
        ("look problem", run.look_problem),
    ):
        if value:
            yield f"  {name:13} {value}"


def _cause(run: RunSummary) -> str | None:
    if run.waiting_cause is None:
        return None
    message = f": {run.waiting_message}" if run.waiting_message else ""
    return f"{run.waiting_cause}{message} (since {rfc3339(run.waiting_since)})"


def export_line(export: ExportRecord, ends: int) -> str:
    """Say which end is meant where the run has several."""
    end = f"end {export.end}  " if ends > 1 else ""
    return f"{end}{export.kind:12}  {export.state:8}  {export.problem or export.location or '-'}"


def change_lines(before: RunDetails | None, after: RunDetails) -> Iterator[str]:
    """What is new, a line each, for where nothing can be drawn over."""
    run = after.run
    old = before.run if before else None
    new_state = (run.status, stage(after), run.waiting_cause)
    if before is None or old is None or new_state != (old.status, stage(before), old.waiting_cause):
        cause = waiting(after)
        yield f"run {run.run_id}  {coloured(run.status)}  stage {stage(after)}{f', waits for {cause}' if cause else ''}"
    if why(run) and (old is None or why(old) != why(run)):
        yield f"run {run.run_id}  why: {why(run)}"
    known = {task.task: (task.status, task.cause) for task in before.tasks} if before else {}
    for task in after.tasks:
        if (task.status, task.cause) != known.get(task.task, (TaskStatus.QUEUED, None)):
            yield f"run {run.run_id}  {_task_line(task, after.run.finished_at or datetime.now(UTC))}"
    due, known_due = rfc3339(next_look_at(run)), rfc3339(next_look_at(old)) if old else "-"
    if not run.status.is_over and due != known_due:
        yield f"run {run.run_id}  next look {due}, or as soon as a task changes"
    told = set(stop_lines(before)) if before else set()
    yield from (f"run {run.run_id}  {line}" for line in stop_lines(after) if line not in told)
    if run.look_problem and (old is None or old.look_problem != run.look_problem):
        yield f"run {run.run_id}  cluster not seen since {rfc3339(run.last_look_at)}: {run.look_problem}"
