"""The database's records: runs, tasks, timelines and exports, as people and programs read them."""

from datetime import datetime

from pydantic import Field, JsonValue, field_serializer

from crawler_lifecycle.contract.audits import FindingRecord
from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.crawl_result import CrawlResult, Stats
from crawler_lifecycle.contract.deployment import Crawler
from crawler_lifecycle.contract.requests import KeptRequest
from crawler_lifecycle.contract.states import ExportState, Intent, RunStatus, TaskStatus, Trigger


class Explanation(Message):
    """Explains a run's end to people."""

    text: str = Field(description="one sentence for people")
    task: int | None = Field(default=None, description="number of the task that decided the end")
    task_reason: str | None = Field(default=None, description="the reason of this task")
    exit_code: int | None = Field(default=None, description="the exit code of this task")
    last_line: str | None = Field(default=None, description="the last line of the log of this task")
    stopped_by: str | None = Field(default=None, description="actor of the stop that ended the run")
    door: str | None = Field(default=None, description="door of this stop")
    forced: bool = Field(default=False, description="whether the jobs were ended by force")


class RunSummary(Message):
    """Run in a list."""

    run_id: int
    run_uid: str
    crawler: str
    trigger: Trigger
    cluster: str
    status: RunStatus
    reason: str | None
    intent: Intent
    tasks: dict[TaskStatus, int]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    waiting_cause: str | None
    waiting_since: datetime | None
    waiting_message: str | None
    changed_at: datetime
    outcome: str | None = Field(default=None, description="one word for the end, such as `finished`; null before")
    stats: Stats | None = Field(default=None, description="sums of the numbers in the tasks' crawl results, at the end")
    explanation: Explanation | None = Field(
        default=None, description="explanation of the end; null while the run is under way and if all tasks succeeded"
    )


HIDDEN = "***"


def without_values(crawler: Crawler) -> Crawler:
    """Hide the values of environment variables from readers, since values may be secret. The names stay."""
    return crawler.model_copy(update={"environment": dict.fromkeys(crawler.environment, HIDDEN)})


class RunRecord(RunSummary):
    """A run with all fields, but without its tasks."""

    installation: str
    epoch: int
    workflow_id: str
    first_execution_run_id: str
    begun_at: datetime
    end_number: int
    export_state: ExportState | None
    request: KeptRequest
    entry: Crawler
    last_look_at: datetime | None
    look_problem: str | None
    next_look_at: datetime | None
    nudge_sent: int
    nudge_acknowledged: int
    result: JsonValue = Field(default=None, description="the main task's own result, at the end")

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
    crawl_result: CrawlResult | None = Field(default=None, description="the crawl's own account")


class TaskRecord(TaskLine):
    job_name: str | None
    job_uid: str | None
    log_tail: str | None
    events: list[str]


class LogRecord(Message):
    """Line in a run's timeline."""

    at: datetime
    event: str
    message: str
    actor: str | None = None
    door: str | None = None


class ExportRecord(Message):
    event_id: str
    kind: str
    end: int = Field(default=1, description="number of the run's end; a reopened run has several ends")
    state: ExportState
    location: str | None
    problem: str | None
    created_at: datetime
    finished_at: datetime | None


class RunOverview(Message):
    """A run's records without the tasks, since a run may have thousands."""

    run: RunRecord
    log: list[LogRecord]
    exports: list[ExportRecord]
    findings: list[FindingRecord] = Field(default=[], description="findings about the run, oldest first")


class RunDetails(RunOverview):
    """A run's records for `crawlctl show`."""

    tasks: list[TaskRecord]


class Changed(Message):
    """A changed run, with its last change's time, for live views."""

    run_id: int
    changed_at: datetime
