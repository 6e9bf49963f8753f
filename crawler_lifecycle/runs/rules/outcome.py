"""Rules for a run's final status and reason, by the statuses of its tasks, and for the sentence that explains the end.

Command line, page, API and closing notice show the same sentence.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from crawler_lifecycle.base.words import counted, span
from crawler_lifecycle.model import reasons
from crawler_lifecycle.model.naming import MAIN_TASK
from crawler_lifecycle.model.records import Explanation, FormerAttempt, LogRecord, RunRecord, TaskRecord
from crawler_lifecycle.model.states import Intent, RunStatus, TaskStatus

FORCE_STOP = "force stop"
STOPS = ("stop", FORCE_STOP)  # events in a run's timeline
REOPENED = "reopened"
FAILURES = (TaskStatus.FAILED, TaskStatus.LOST)
MAIN_JOB_ENDED = (reasons.MAIN_JOB_FAILED, reasons.MAIN_JOB_LOST)
IN_A_ROW = 3  # failed ends after which a crawler counts as failing
FAILURES_SHOWN = timedelta(days=1)  # in which failures need a person's attention
LONGEST_LINE = 200  # characters in a log line or message
LONGEST_TEXT = 600  # characters in the sentence: a notice with the sentence has to fit into a database column
TERMINAL_CODES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")  # colours and cursor movements in a log
# every reason for the end of a run, in words for people
SENTENCES = {
    reasons.ALL_SUCCEEDED: "all tasks succeeded",
    reasons.FAILURES_ALLOWED: "tasks failed, and no more than the run allows",
    reasons.MAIN_JOB_FAILED: "the main job failed",
    reasons.MAIN_JOB_LOST: "the main job was lost",
    reasons.TASKS_FAILED: "tasks failed",
    reasons.TASKS_LOST: "tasks were lost",
    reasons.DEPLOYMENT_REFUSED: "the deployment of the main job was refused",
    reasons.NEVER_STARTED: "the main job did not start within the start limit",
    reasons.MAX_DURATION: "the run exceeded its time limit",
    reasons.STOPPED: "the run was stopped",
    reasons.STOPPED_FORCED: "the run was stopped by force",
}


def explanation(run: RunRecord, tasks: Iterable[TaskRecord], log: Sequence[LogRecord]) -> Explanation | None:
    """Return why the run ended; None for an open run, and for a run whose tasks all succeeded.

    `tasks` may be all tasks, or only task 0 and the first FAILED or LOST task in the order (status, task).
    """
    if not run.status.is_over or run.reason is None:
        return None
    explained = _explained(run, run.reason, tasks, log)
    return explained and explained.model_copy(update={"text": explained.text[:LONGEST_TEXT]})


def _explained(
    run: RunRecord, reason: str, tasks: Iterable[TaskRecord], log: Sequence[LogRecord]
) -> Explanation | None:
    if reason in reasons.BY_A_STOP:
        return _explained_by_stop(reason, _stops_of_the_last_end(log))
    known_tasks = list(tasks)
    main_task = next((row for row in known_tasks if row.task == MAIN_TASK), None)
    if reason == reasons.NEVER_STARTED:
        return _explained_by_start_limit(run, main_task)
    if reason == reasons.MAX_DURATION:
        limit = _limit("time", run.request.max_duration_seconds)
        return Explanation(text=f"the run exceeded its {limit}{_earlier_failures(main_task)}")
    if reason == reasons.DEPLOYMENT_REFUSED:
        refusal = main_task.message if main_task and main_task.message else "its answer is not known"
        return Explanation(text=f"the main job could not be deployed: {_in_one_line(refusal)}", task=MAIN_TASK)
    return _explained_by_task(run, main_task if reason in MAIN_JOB_ENDED else _first_failure(known_tasks))


def last_line(text: str | None) -> str | None:
    """Return a log's last line with text, without a terminal's colour codes; None for a log without text."""
    lines = [line.strip() for line in TERMINAL_CODES.sub("", text or "").splitlines()]
    return next((_printable(line)[:LONGEST_LINE] for line in reversed(lines) if line), None)


def _explained_by_stop(reason: str, stops: Sequence[LogRecord]) -> Explanation:
    """Explain a stop by its requests. The first request names the person; a later force may come from the workflow."""
    forced = reason == reasons.STOPPED_FORCED
    if not stops:
        return Explanation(text="stopped by force" if forced else "stopped", forced=forced)
    first = stops[0]
    is_replaced = first.door == reasons.SCHEDULE_DOOR
    author = f"replaced by {first.actor}" if is_replaced else f"stopped by {_actor(first)}"
    text = f"{author}: {_in_one_line(first.message)}"
    force = next((line for line in stops if line.event == FORCE_STOP), None)
    if forced and force is not None:
        text += ", by force" if force is first else f"; forced by {_actor(force)}: {_in_one_line(force.message)}"
    return Explanation(text=text, stopped_by=first.actor, door=first.door, forced=forced)


def _explained_by_start_limit(run: RunRecord, main_task: TaskRecord | None) -> Explanation:
    limit = _limit("start", run.request.start_limit_seconds)
    obstacle = f": {_in_one_line(main_task.message)}" if main_task and main_task.message else ""
    failures = _earlier_failures(main_task)
    return Explanation(text=f"the main job did not start within the {limit}{failures}{obstacle}", task=MAIN_TASK)


def _earlier_failures(row: TaskRecord | None) -> str:
    """Return the failed attempts of a task since the run began or was reopened, with the reason of the last failure."""
    number = row.infrastructure_failures + row.program_failures if row else 0
    failed = row.former_attempts[-number:] if row and number else []
    if not failed:
        return ""
    reasons_and_codes = [_reason_and_code(attempt) for attempt in failed]
    last = reasons_and_codes[-1]
    differs = any(words != last for words in reasons_and_codes)
    return f", after {counted(len(failed), 'attempt')} that failed{', the last' if differs else ''}{last}"


def _limit(name: str, seconds: int | None) -> str:
    return f"{name} limit" if seconds is None else f"{name} limit of {span(seconds)}"


def _explained_by_task(run: RunRecord, row: TaskRecord | None) -> Explanation | None:
    """Explain the end by the deciding task; None without such a task."""
    if row is None:
        return None
    name = "task 0 (the main job)" if row.task == MAIN_TASK else f"task {row.task}"
    text = f"{name} {row.status}{_reason_and_code(row)}"
    line = last_line(row.log_tail) or last_line(row.message)
    if line:
        text += f"; its last line: {line}" if row.reason == reasons.KILLED else f": {line}"
    others = sum(run.tasks.get(status, 0) for status in FAILURES) - 1
    if others > 0:
        text += f" (and {counted(others, 'more task')} FAILED or LOST)"
    return Explanation(text=text, task=row.task, task_reason=row.reason, exit_code=row.exit_code, last_line=line)


def _reason_and_code(row: TaskRecord | FormerAttempt) -> str:
    """Return the reason and the exit code for the sentence. A reason such as `exit_1` only repeats the exit code."""
    if row.reason == reasons.KILLED:
        return ": killed (SIGKILL); possibly out of memory"
    code = "" if row.exit_code is None else f"exit code {row.exit_code}"
    if row.reason and row.reason != f"exit_{row.exit_code}":
        return f" ({row.reason}, {code})" if code else f" ({row.reason})"
    return f" with {code}" if code else ""


def _first_failure(tasks: Sequence[TaskRecord]) -> TaskRecord | None:
    """Return the first FAILED task, or else the first LOST task; None if no task failed. A FAILED task says more."""
    failed = (row for row in tasks if row.status in FAILURES)
    # statuses are texts, and FAILED comes before LOST in the alphabet
    return min(failed, key=lambda row: (row.status, row.task), default=None)


def _stops_of_the_last_end(log: Sequence[LogRecord]) -> Sequence[LogRecord]:
    """Return the stops since the last reopening, since an earlier end may have had its own stops."""
    reopened = max((number for number, line in enumerate(log) if line.event == REOPENED), default=-1)
    return [line for line in log[reopened + 1 :] if line.event in STOPS]


def _actor(line: LogRecord) -> str:
    if line.door:
        return f"{line.actor or 'somebody who gave no name'} ({line.door})"
    return line.actor or "somebody"


def _in_one_line(text: str) -> str:
    return _printable(" ".join(text.split()))[:LONGEST_LINE]


def _printable(text: str) -> str:
    """Replace control and direction characters, which could hide or reverse the words beside them."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def outcome(
    tasks: Mapping[TaskStatus, int],
    intent: Intent,
    allowed_failures: float,
    main_job: TaskStatus,
    reason: str | None,
    *,
    out_of_time: bool = False,
) -> tuple[RunStatus, str]:
    """Return the run's final status and reason.

    `tasks`: number of tasks by final status. `main_job`: final status of task 0. `reason`: the time limit, or the
    refused deployment, for which the supervisor ends the run; None otherwise. `allowed_failures`: a share of the tasks,
    from 0 to 1. `out_of_time`: at the duration limit the cluster itself ended a job, so the reason holds even if no
    task is STOPPED.

    A stop or limit that ended no task is no reason: then the tasks decide.
    """
    total = sum(tasks.values())
    succeeded = tasks.get(TaskStatus.SUCCEEDED, 0)
    has_stopped_tasks = tasks.get(TaskStatus.STOPPED, 0) > 0
    if succeeded == total:
        return RunStatus.COMPLETED, reasons.ALL_SUCCEEDED
    if reason and (reason == reasons.DEPLOYMENT_REFUSED or has_stopped_tasks or out_of_time):
        return RunStatus.FAILED, reason
    if intent is not Intent.RUN and has_stopped_tasks:
        return RunStatus.FAILED, reasons.STOPPED_FORCED if intent is Intent.FORCE else reasons.STOPPED
    if main_job is not TaskStatus.SUCCEEDED:
        return RunStatus.FAILED, reasons.MAIN_JOB_LOST if main_job is TaskStatus.LOST else reasons.MAIN_JOB_FAILED
    failed = tasks.get(TaskStatus.FAILED, 0) + tasks.get(TaskStatus.LOST, 0)
    if succeeded + failed == total and failed <= allowed_failures * total:
        return RunStatus.COMPLETED, reasons.FAILURES_ALLOWED
    return RunStatus.FAILED, reasons.TASKS_FAILED if tasks.get(TaskStatus.FAILED) else reasons.TASKS_LOST


def in_a_sentence(status: RunStatus, reason: str) -> str:
    """Return the status and the reason in words, for the timeline. An unknown reason stays a code."""
    return f"{status}: {SENTENCES.get(reason, reason)}"
