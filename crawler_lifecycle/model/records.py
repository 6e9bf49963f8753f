"""Models for the database's records (runs, tasks, timelines, exports) for readers: people, front ends, programs.

`RunFilter` chooses the runs of a list, and `TaskOrder` orders a list of tasks.
"""

from datetime import datetime, timedelta
from enum import StrEnum

from pydantic import Field, JsonValue, field_serializer

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.model.audits import FindingRecord
from crawler_lifecycle.model.crawl_results import CrawlResult, Stats
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.requests import KeptRequest, Moment, Name
from crawler_lifecycle.model.states import ExportKind, ExportState, Intent, ListedStatus, RunStatus, TaskStatus, Trigger

MOST_VALUES = 10  # of a filter that may be repeated
WINDOW = timedelta(days=30)
LONGEST_RUN_ID = 18  # digits; a longer number does not fit into the database


class RunFilter(Message):
    """Choice by all given values, as the API's parameters have them. An empty value chooses every run."""

    status: tuple[RunStatus, ...] = Field(
        default=(), max_length=MOST_VALUES, description="only runs with one of these statuses"
    )
    listed: tuple[ListedStatus, ...] = Field(
        default=(),
        max_length=MOST_VALUES,
        description="only runs with one of these statuses; `STOPPED` means the FAILED runs that a stop ended, and "
        "`FAILED` the others",
    )
    trigger: tuple[Trigger, ...] = Field(
        default=(), max_length=MOST_VALUES, description="only runs with one of these triggers"
    )
    crawler: Name | None = Field(default=None, description="only runs of this crawler")
    search: str | None = Field(
        default=None,
        min_length=1,
        max_length=128,
        description="only crawlers with this text in their names, in any case, and the run with this RunID",
    )
    reason: Name | None = Field(default=None, description="only runs that ended for this reason")
    outcome: Name | None = Field(
        default=None, description="only runs whose end has this outcome, such as `finished` or `banned`"
    )
    requested_by: str | None = Field(
        default=None, min_length=1, max_length=256, description="only runs of this requester"
    )
    tag: Name | None = Field(default=None, description="only runs with this tag")
    label: Name | None = Field(default=None, description="only runs with this label")
    since: Moment | None = Field(
        default=None,
        description="only runs created at this time or later; default for most filters: 30 days ago, or 30 days before "
        "`until`",
    )
    until: Moment | None = Field(default=None, description="only runs created before this time")
    flows: bool = Field(
        default=False,
        description="runs of flows, too; default: only runs of their own, unless a tag or a label is given",
    )
    flow: str | None = Field(default=None, max_length=128, description="only runs of the flow with this id or uid")

    @property
    def filters(self) -> set[str]:
        """The given fields apart from times and flows."""
        return self.model_dump(exclude_defaults=True).keys() - {"since", "until", "flow", "flows"}

    @property
    def is_search(self) -> bool:
        """Whether a list may read many runs that do not fit: the runs of a crawler or of a flow are found at once."""
        return bool(self.filters - {"crawler"})

    @property
    def run_id(self) -> int | None:
        """The searched text as a RunID; None: the text is no RunID."""
        text = self.search or ""
        return int(text) if text.isascii() and text.isdecimal() and len(text) <= LONGEST_RUN_ID else None

    def in_window(self, now: datetime) -> "RunFilter":
        """Return the filter for people: without `since`, a search goes back for WINDOW only.

        Open runs, the runs of a flow and the run with a searched RunID are found whatever their age is.
        """
        has_window = self.is_search and self.since is None and self.flow is None and self.run_id is None
        if not has_window or self._is_open:
            return self
        return self.model_copy(update={"since": min(self.until or now, now) - WINDOW})

    @property
    def _is_open(self) -> bool:
        statuses = {*self.status, *self.listed}
        return bool(statuses) and statuses <= set(OPEN_RUNS.status)


EXPORT_PATIENCE = 30.0  # seconds that commands wait for a run's exports after its end
ALL_RUNS = RunFilter()
OPEN_RUNS = RunFilter(status=tuple(status for status in RunStatus if not status.is_over), flows=True)


class TaskOrder(StrEnum):
    """Order for tasks. A minus reverses the order; tasks without a value come last in both directions."""

    TASK = "task"  # by number
    TASK_DOWN = "-task"
    STATUS = "status"  # from QUEUED to LOST
    STATUS_DOWN = "-status"
    DURATION = "duration"  # from the start to the end, or until now
    DURATION_DOWN = "-duration"
    EXIT_CODE = "exit_code"
    EXIT_CODE_DOWN = "-exit_code"

    @property
    def key(self) -> str:
        """The order without its direction."""
        return self.value.removeprefix("-")

    @property
    def is_down(self) -> bool:
        """Whether the largest value comes first."""
        return self.value.startswith("-")


class Explanation(Message):
    """Explanation for a run's end."""

    text: str = Field(description="explanation in a sentence for people")
    task: int | None = Field(default=None, description="number of the task that decided the end")
    task_reason: str | None = Field(default=None, description="the reason of this task")
    exit_code: int | None = Field(default=None, description="the exit code of this task")
    last_line: str | None = Field(default=None, description="the last line of the log of this task")
    stopped_by: str | None = Field(default=None, description="actor of the stop that ended the run")
    door: str | None = Field(default=None, description="door of this stop")
    forced: bool = Field(default=False, description="whether the jobs were ended by force")


class FlowPlace(Message):
    """A run's place in its flow: a crawl's attempt."""

    id: str = Field(description="the flow's id")
    path: str = Field(description="the crawl's path in the flow")
    attempt: int


class RunSummary(Message):
    """Run in a list."""

    run_id: int
    run_uid: str
    crawler: str
    trigger: Trigger
    requested_by: str | None = Field(default=None, description="requester's name")
    cluster: str
    status: RunStatus
    reason: str | None
    intent: Intent
    tasks: dict[TaskStatus, int]
    created_at: datetime
    begun_at: datetime = Field(description="time from which duration and limits count: creation or last reopening")
    started_at: datetime | None = Field(description="start of the main job, after the last reopening")
    finished_at: datetime | None
    waiting_cause: str | None
    waiting_since: datetime | None
    waiting_message: str | None
    priority: int = 0
    admitted_at: datetime | None = Field(default=None, description="when the run got its permit to begin")
    held_by: str | None = Field(
        default=None, description="scope whose limit or pause holds the run or its child tasks, as `label:site:x.com`"
    )
    changed_at: datetime
    flow: FlowPlace | None = Field(default=None, description="place in a flow; null for a run of its own")
    tags: list[str] = Field(default=[], description="free words by which runs are found in lists")
    outcome: str | None = Field(default=None, description="one word for the end, such as `finished`; null before")
    stats: Stats | None = Field(default=None, description="sums of the numbers in the tasks' crawl results, at the end")
    explanation: Explanation | None = Field(
        default=None, description="explanation of the end; null while the run is under way and if all tasks succeeded"
    )


class RunEnd(Message):
    """Run's end in a list for a crawler."""

    run_id: int
    status: ListedStatus
    outcome: str | None


class RunCounts(Message):
    """Numbers of runs by status."""

    counts: dict[ListedStatus, int] = Field(description="runs by status; a status without runs is left out")
    at_least: list[ListedStatus] = Field(
        default=[],
        description="statuses that may have more runs than counted: only the newest runs are counted, at least 200 of "
        "each status",
    )


class CrawlerRuns(Message):
    """A crawler's latest run and latest ends."""

    crawler: str
    latest: RunSummary | None = Field(description="latest run, also in a flow; null: the crawler has never run")
    ends: list[RunEnd] = Field(description="those of the newest 16 runs that are over, ten at most, newest first")


HIDDEN = "***"  # shown in place of a variable's value


def without_values(crawler: Crawler) -> Crawler:
    """Return the catalogue entry with its environment variables' values hidden, since values may be secret."""
    return crawler.model_copy(update={"environment": dict.fromkeys(crawler.environment, HIDDEN)})


class RunRecord(RunSummary):
    """A run with all fields, but without its tasks."""

    installation: str
    epoch: int = Field(description="number of the run's supervisors until now")
    workflow_id: str
    first_execution_run_id: str = Field(description="Temporal's id of the first execution that the request started")
    end_number: int = Field(description="number of the run's ends until now")
    export_state: ExportState | None = Field(description="worst state of the run's exports; none while the run is open")
    request: KeptRequest
    entry: Crawler = Field(description="the run's copy of its catalogue entry")
    last_look_at: datetime | None
    look_problem: str | None = Field(
        description="why the last look could not observe the cluster, or what in the cluster people should know"
    )
    next_look_at: datetime | None
    nudge_sent: int = Field(description="number of the last nudge")
    nudge_acknowledged: int = Field(description="number of the last nudge that a look answered")
    result: JsonValue = Field(default=None, description="the main task's own result, at the end")
    task_seconds: float | None = Field(
        default=None, description="time of all attempts from their starts to their ends, until the run's last end"
    )
    cpu_seconds: float | None = Field(
        default=None, description="this time multiplied by the requested CPUs; null: the entry requests none"
    )
    memory_gib_seconds: float | None = Field(
        default=None, description="this time multiplied by the requested GiB of memory; null: the entry requests none"
    )
    archived_bytes: int | None = Field(default=None, description="size of the archives of all ends; null: none is made")

    @field_serializer("entry")
    def _without_values(self, entry: Crawler) -> Crawler:
        return without_values(entry)


class TaskLine(Message):
    """A task without its evidence."""

    task: int
    attempt: int
    status: TaskStatus
    cause: str | None
    cause_since: datetime | None
    reason: str | None
    exit_code: int | None
    message: str | None
    node: str | None
    restarts: int
    queued_at: datetime
    deployed_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None


class FormerAttempt(Message):
    """A task's ended attempt before its present attempt."""

    attempt: int
    status: TaskStatus
    reason: str | None
    exit_code: int | None
    message: str | None
    node: str | None
    job_name: str | None
    started_at: datetime | None
    finished_at: datetime | None
    log_tail: str | None
    events: list[str]


class TaskRecord(TaskLine):
    """A task with its job, its evidence and its previous attempts."""

    job_name: str | None
    job_uid: str | None
    log_tail: str | None
    events: list[str]
    deploy_after: datetime | None = Field(default=None, description="end of the pause before a retry")
    infrastructure_failures: int = Field(default=0, description="retries after failures of the infrastructure")
    program_failures: int = Field(default=0, description="retries after failures of the program")
    former_attempts: list[FormerAttempt] = Field(default=[], description="the task's previous attempts, oldest first")
    crawl_result: CrawlResult | None = Field(default=None, description="the crawl's own account")


class LogRecord(Message):
    """Line in a run's timeline. `actor` and `door`: the event's author and door, if known."""

    at: datetime
    event: str
    message: str
    actor: str | None = None
    door: str | None = None


class LogPart(Message):
    """Part from an attempt's log."""

    attempt: int
    text: str
    offset: int = Field(description="byte from which to continue reading")
    ended: bool = Field(description="whether the log is complete")


class ExportRecord(Message):
    """An export after a run's end: its event, and its archive's place."""

    event_id: str
    kind: str
    end: int = Field(default=1, description="number of the run's end; a reopened run has several ends")
    state: ExportState
    location: str | None
    problem: str | None
    created_at: datetime
    finished_at: datetime | None


class Place(Message):
    """A run's place in the line for a permit. Weights of labels may let later runs begin earlier."""

    number: int | None = Field(description="place, from 1; null after the first thousand")
    length: int = Field(description="how many runs the same scope holds")


class RunOverview(Message):
    """A run's records without the tasks, since a run may have thousands."""

    run: RunRecord
    place: Place | None = Field(default=None, description="place in the line; null unless the run waits for its permit")
    log: list[LogRecord]
    exports: list[ExportRecord]
    findings: list[FindingRecord] = Field(default=[], description="findings about the run, oldest first")


class RunDetails(RunOverview):
    """A run's records for `crawlctl show`."""

    tasks: list[TaskRecord]

    @property
    def is_handed_over(self) -> bool:
        """Whether every export is done or failed, for all ends."""
        finished = sum(export.state is not ExportState.PENDING for export in self.exports)
        return finished >= self.run.end_number * len(ExportKind)


class Changed(Message):
    """A run and the time when the run changed last, for live views."""

    run_id: int
    changed_at: datetime
