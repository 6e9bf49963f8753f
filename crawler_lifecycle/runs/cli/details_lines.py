"""Turns a run's record and findings into lines of text: fields, tasks, stop, exports and timeline."""

import json
from collections.abc import Iterator
from datetime import datetime

import click

from crawler_lifecycle.base.words import counted
from crawler_lifecycle.console.words import (
    counts,
    crawled,
    duration,
    facts,
    named,
    rfc3339,
)
from crawler_lifecycle.limits.cli import held_children, permit_words
from crawler_lifecycle.model.audits import FindingRecord
from crawler_lifecycle.model.crawl_results import FIRST_STATS, PROBLEM, CrawlResult
from crawler_lifecycle.model.records import (
    ExportRecord,
    FormerAttempt,
    Place,
    RunDetails,
    RunRecord,
    TaskRecord,
)
from crawler_lifecycle.model.states import TaskStatus
from crawler_lifecycle.model.task_changes import LOG_NOT_READ
from crawler_lifecycle.runs.cli.list_lines import coloured_status, time_taken, why
from crawler_lifecycle.runs.cli.screen import cause_of, next_look_at, stop_lines, task_line
from crawler_lifecycle.runs.cli.usage import use_words

LAST_LINES = 3  # longest extract from a finding's evidence
UNUSABLE = PROBLEM.partition(":")[0]  # beginning of the event about a result that does not count
MOST_WARNINGS = 3  # lines about unusable results, at a run's end


def finding_lines(finding: FindingRecord) -> Iterator[str]:
    """Yield the lines of a finding: its times, message, repair and evidence."""
    state = f"until {time_text(finding.closed_at)}" if finding.closed_at else "open"
    yield f"{time_text(finding.first_seen_at)}  {finding.kind}, {state}: {run_prefix(finding.run_id)}{finding.message}"
    if finding.action:
        times = f", {finding.acts} times so far" if finding.acts > 1 else ""
        yield f"    done {time_text(finding.acted_at)}: {finding.action}{times}"
    if finding.problem and finding.closed_at is None:
        yield f"    {finding.problem}"
    if finding.evidence:
        yield from (f"    | {line}" for line in finding.evidence.splitlines()[-LAST_LINES:])


def run_prefix(run_id: int | None) -> str:
    return f"run {run_id}: " if run_id is not None else ""


def time_text(moment: datetime | None) -> str:
    return rfc3339(moment) if moment else "never"


def details_lines(details: RunDetails, now: datetime) -> Iterator[str]:
    run = details.run
    yield from _run_lines(run, details.place, now)
    yield ""
    yield click.style("Tasks", bold=True)
    for task in details.tasks:
        yield from _task_lines(run.run_id, task, now)
    if stops := list(stop_lines(details)):
        yield ""
        yield click.style("Stop", bold=True)
        yield from (f"  {line}" for line in stops)
    yield ""
    yield click.style("Exports", bold=True)
    yield from (f"  {export_line(export, run.end_number)}" for export in details.exports)
    if not details.exports:
        yield "  none" if run.status.is_over else "  none yet"
    if other_stats := {name: value for name, value in (run.stats or {}).items() if name not in FIRST_STATS}:
        yield ""
        yield click.style("Other stats", bold=True)
        yield from (f"  {name}: {value:,}" for name, value in other_stats.items())
    if details.findings:
        yield ""
        yield click.style("Findings of audits", bold=True)
        yield from (f"  {line}" for finding in details.findings for line in finding_lines(finding))
    yield ""
    yield click.style("Log", bold=True)
    for line in details.log:
        requester = ", ".join(part for part in (line.actor, line.door) if part)
        yield f"  {rfc3339(line.at)}  {line.event}: {line.message}" + (f" ({requester})" if requester else "")


def _task_lines(run_id: int, task: TaskRecord, now: datetime) -> Iterator[str]:
    """Yield the line for a task and, if the task did not go well, the evidence."""
    exit_code = f"  exit {task.exit_code}" if task.exit_code is not None else ""
    attempt = f"  attempt {task.attempt}" if task.attempt > 1 else ""
    yield f"  {task_line(task, now)}{exit_code}{attempt}"
    for former in task.former_attempts:
        yield f"      {_former_line(former)}"
    if task.crawl_result and (account := _account(task.crawl_result)):
        yield f"      said: {account}"
    elif problem := _unusable_result(task):
        yield f"      {problem}"
    if _is_worth_evidence(task):
        yield from (f"      {line}" for line in _evidence_lines(task))
        tail = (task.log_tail or task.message or "").splitlines()
        yield from (f"      | {line}" for line in tail[-LAST_LINES:])
        if task.log_tail or any(event.startswith(LOG_NOT_READ) for event in task.events):
            yield f"      all of it: crawlctl logs {run_id} --task {task.task}"


def _former_line(former: FormerAttempt) -> str:
    why_it_ended = f" ({former.reason})" if former.reason else ""
    node = f" on {former.node}" if former.node else ""
    return f"attempt {former.attempt}: {former.status}{why_it_ended}{node}  {rfc3339(former.finished_at)}"


def _account(crawl_result: CrawlResult) -> str:
    result = "" if crawl_result.result is None else json.dumps(crawl_result.result, ensure_ascii=False)
    return ", ".join(part for part in (crawl_result.outcome, crawled(crawl_result.stats), result) if part)


def _is_worth_evidence(task: TaskRecord) -> bool:
    """Return whether the task failed, was restarted, or was stopped with stored evidence."""
    if task.status is TaskStatus.STOPPED and (task.message or task.log_tail or task.events):
        return True
    return task.status in (TaskStatus.FAILED, TaskStatus.LOST) or task.restarts > 0


def _evidence_lines(task: TaskRecord) -> Iterator[str]:
    """Yield the task's node, message and events; without a log tail, `_task_lines` shows the message as the tail."""
    if task.node:
        yield f"on {task.node}" + (f", restarted {task.restarts} times" if task.restarts else "")
    if task.message and task.log_tail:
        yield from task.message.splitlines()
    yield from task.events


def _run_lines(run: RunRecord, place: Place | None, now: datetime) -> Iterator[str]:
    yield f"{click.style(f'run {run.run_id}', bold=True)}  {run.crawler}  {coloured_status(run)}"
    yield from facts(
        [
            ("outcome", run.outcome),
            ("reason", run.reason),
            ("why", why(run)),
            ("run_uid", run.run_uid),
            ("workflow", run.workflow_id),
            ("trigger", run.trigger),
            ("requested by", run.request.requested_by),
            ("arguments", named(run.request.arguments)),
            ("settings", named(run.request.settings)),
            ("labels", ", ".join(run.request.labels)),
            ("tags", ", ".join(run.tags)),
            ("flow", run.flow and f"{run.flow.id}, {run.flow.path}, attempt {run.flow.attempt}"),
            ("priority", run.priority),
            ("tasks", counts(run.tasks)),
            ("crawled", crawled(run.stats)),
            ("result", run.result if run.result is None else json.dumps(run.result, ensure_ascii=False)),
            ("cluster", run.cluster),
            ("intent", run.intent),
            ("created", rfc3339(run.created_at)),
            ("reopened", rfc3339(run.begun_at) if run.begun_at != run.created_at else None),
            ("main started", rfc3339(run.started_at)),
            ("finished", rfc3339(run.finished_at)),
            ("took", duration(time_taken(run, now))),
            ("used", use_words(run)),
            ("last look", rfc3339(run.last_look_at)),
            ("next look", None if run.status.is_over else rfc3339(next_look_at(run))),
            ("queued", permit_words(run, place)),
            ("waits for", None if run.status.is_over else cause_of(run)),
            ("child tasks", held_children(run)),
            ("look problem", run.look_problem),
        ]
    )


def end_lines(details: RunDetails) -> Iterator[str]:
    """Yield the line about the run's end, then why, warnings about unusable results, and the exports."""
    run = details.run
    words = f"outcome {run.outcome}, reason {run.reason}"
    yield f"run {run.run_id} ended {coloured_status(run)} ({words}): {counts(run.tasks)}"
    if explanation := why(run):
        yield f"  why: {explanation}"
    unusable = [(task.task, problem) for task in details.tasks if (problem := _unusable_result(task))]
    for number, problem in unusable[:MOST_WARNINGS]:
        yield click.style("  warning", fg="yellow") + f": task {number}: {problem}"
    if len(unusable) > MOST_WARNINGS:
        yield f"  ... and of {counted(len(unusable) - MOST_WARNINGS, 'more task')}: crawlctl show {run.run_id}"
    yield from (f"  {export_line(export, run.end_number)}" for export in details.exports)


def _unusable_result(task: TaskRecord) -> str | None:
    """Return why the crawl's own account is unusable; None for a good account, and without an account."""
    if task.crawl_result is not None:
        return None
    return next((event for event in task.events if event.startswith(UNUSABLE)), None)


def export_line(export: ExportRecord, ends: int) -> str:
    """Return the line of an export. The line names the end only if the run has several ends."""
    end = f"end {export.end}  " if ends > 1 else ""
    return f"{end}{export.kind:12}  {export.state:8}  {export.problem or export.location or '-'}"
