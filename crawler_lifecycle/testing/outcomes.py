"""Outcomes for crawls, approvals and steps, as a test chooses them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TypedDict, Unpack

from pydantic import JsonValue

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.model.crawl_results import Number
from crawler_lifecycle.model.outcome_words import FAILED, FINISHED, KILLED_BY_OOM
from crawler_lifecycle.model.reasons import ALL_SUCCEEDED, MAIN_JOB_FAILED, STOPPED, STOPPED_FORCED
from crawler_lifecycle.model.states import RunStatus, TaskStatus

Time = float | timedelta  # seconds, or a timedelta
Files = Mapping[str, str] | Path  # texts by name, or a folder


class CrawlDetails(TypedDict, total=False):
    """Details about a crawl's run. Times are virtual."""

    items: int
    stats: Mapping[str, Number]
    result: JsonValue  # the main task's own result
    tasks: int  # default: the crawl's own number
    failed_tasks: Collection[int]  # default: all tasks in a failed run, no task in a completed run
    files: Files  # files in the run's folder; the run then has an archive, too
    after: Time  # time from the start to the end
    archived_after: Time  # time from the end until the archive is ready


@dataclass(frozen=True, kw_only=True)
class CrawlOutcome:
    """A crawl's end."""

    status: RunStatus
    outcome: str
    reason: str
    task_end: TaskStatus  # end for tasks without success
    stats: Mapping[str, Number] = field(default_factory=dict)
    result: JsonValue = None
    tasks: int | None = None
    failed_tasks: frozenset[int] | None = None
    files: Files | None = None
    after: timedelta = timedelta()
    archived_after: timedelta = timedelta()

    def task_ends(self, tasks: int) -> dict[int, TaskStatus]:
        """Return the ends by task, for a run with `tasks` tasks."""
        if self.failed_tasks is None:
            failed = frozenset[int]() if self.status is RunStatus.COMPLETED else frozenset(range(tasks))
        else:
            failed = self.failed_tasks
        return {task: self.task_end if task in failed else TaskStatus.SUCCEEDED for task in range(tasks)}


@dataclass(frozen=True)
class RefusedCrawl:
    """A crawl without a start, such as a crawl with an unknown crawler."""

    message: str = "refused"


@dataclass(frozen=True)
class Answer:
    """A person's decision about an approval, some time after the flow has reached the approval."""

    is_approved: bool
    actor: str | None = None
    note: str | None = None
    after: timedelta = timedelta()


def completed(outcome: str = FINISHED, **details: Unpack[CrawlDetails]) -> CrawlOutcome:
    """Return a completed crawl's end. `outcome`: the crawl's own word."""
    return _outcome(RunStatus.COMPLETED, outcome, ALL_SUCCEEDED, TaskStatus.FAILED, details)


def failed(outcome: str = FAILED, *, reason: str = MAIN_JOB_FAILED, **details: Unpack[CrawlDetails]) -> CrawlOutcome:
    """Return a failed crawl's end. `outcome`: the word for retry rules, such as `killed by oom`."""
    return _outcome(RunStatus.FAILED, outcome, reason, TaskStatus.FAILED, details)


def killed_by_oom(**details: Unpack[CrawlDetails]) -> CrawlOutcome:
    """Return a crawl's end after too much memory use."""
    return failed(KILLED_BY_OOM, **details)


def stopped(*, forced: bool = False, **details: Unpack[CrawlDetails]) -> CrawlOutcome:
    """Return the end for a crawl after a person's stop."""
    outcome, reason = ("cancel_timeout", STOPPED_FORCED) if forced else ("cancelled", STOPPED)
    return _outcome(RunStatus.FAILED, outcome, reason, TaskStatus.STOPPED, details)


def refused(message: str = "refused") -> RefusedCrawl:
    """Return the end for a crawl without a start."""
    return RefusedCrawl(message)


def approved(*, actor: str | None = None, note: str | None = None, after: Time = 0) -> Answer:
    """Return a person's consent."""
    return Answer(True, actor, note, as_time("after", after))


def rejected(*, actor: str | None = None, note: str | None = None, after: Time = 0) -> Answer:
    """Return a person's refusal."""
    return Answer(False, actor, note, as_time("after", after))


def as_time(name: str, value: Time) -> timedelta:
    """Return the time; raise BadInput for a negative time."""
    time = value if isinstance(value, timedelta) else timedelta(seconds=value)
    if time < timedelta():
        raise BadInput(name, f"expected a time from 0 on, not {value!r}")
    return time


def _outcome(status: RunStatus, outcome: str, reason: str, task_end: TaskStatus, details: CrawlDetails) -> CrawlOutcome:
    unknown = sorted(details.keys() - CrawlDetails.__optional_keys__)
    if unknown:
        raise BadInput(unknown[0], f"is no detail of a crawl; possible are {sorted(CrawlDetails.__optional_keys__)}")
    stats = dict(details.get("stats", {}))
    if "items" in details:
        stats["items"] = details["items"]
    failed_tasks = details.get("failed_tasks")
    return CrawlOutcome(
        status=status,
        outcome=outcome,
        reason=reason,
        task_end=task_end,
        stats=stats,
        result=details.get("result"),
        tasks=details.get("tasks"),
        failed_tasks=None if failed_tasks is None else frozenset(failed_tasks),
        files=details.get("files"),
        after=as_time("after", details.get("after", 0)),
        archived_after=as_time("archived_after", details.get("archived_after", 0)),
    )
