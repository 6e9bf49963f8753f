"""Models of the API's request bodies and answers."""

from typing import Annotated

from pydantic import Field, JsonValue, field_validator

from crawler_lifecycle.contract.base import Message, Request
from crawler_lifecycle.contract.limits import LimitRecord
from crawler_lifecycle.contract.notices import Notice
from crawler_lifecycle.contract.records import CrawlerRuns, ExportRecord, RunOverview, RunSummary, TaskLine
from crawler_lifecycle.contract.requests import MOST_TASKS_EVER, RETRIES, Moment, RunParameters
from crawler_lifecycle.contract.retries import RequestedRetries
from crawler_lifecycle.contract.schedules import Overlap, ScheduledManager, ScheduleRules, ScheduleSummary
from crawler_lifecycle.contract.states import ListedStatus, TaskStatus, Trigger
from crawler_lifecycle.services.api.tokens import Scope


class StartRequest(RunParameters):
    """Start a run of a crawler."""

    model_config = Request.model_config  # refuses unknown fields, which RunParameters ignores
    trigger: Trigger = Field(default=Trigger.API, strict=False, description="`api`, or `manual` if a person asked")
    retries: RequestedRetries | None = Field(default=None, description=RETRIES)

    @field_validator("trigger")
    @classmethod
    def _refuse_scheduled(cls, trigger: Trigger) -> Trigger:
        if trigger is Trigger.SCHEDULED:
            raise ValueError("expected api or manual: scheduled runs are started by their schedule")
        return trigger


class StopBody(Request):
    force: bool = Field(
        default=False,
        description="make the jobs end at once: SIGTERM, and without the grace period SIGKILL; on Kubernetes "
        "the Jobs are deleted, and their pods with a grace period of 0 seconds",
    )
    reason: Annotated[str, Field(max_length=1024)] | None = Field(default=None, description="reason, for the record")
    actor: Annotated[str, Field(max_length=256)] | None = Field(
        default=None, description="person or program that asks, for the record, where the token's name stands beside it"
    )


class ResumeBody(Request):
    reopen: bool = Field(default=False, description="give the unfinished tasks of a FAILED run another attempt")


class MoreTasks(Request):
    count: Annotated[int, Field(ge=1, le=MOST_TASKS_EVER)] = Field(description="number of new tasks")


class TasksAdded(Message):
    first: int = Field(description="number of the first new task")
    count: int


class ScheduledRun(RunParameters):
    """Request for the run at every occurrence."""

    model_config = Request.model_config  # refuses unknown fields, as in StartRequest
    trigger: Trigger = Field(default=Trigger.SCHEDULED, strict=False, description="always `scheduled`")
    retries: RequestedRetries | None = Field(default=None, description=RETRIES)

    @field_validator("trigger")
    @classmethod
    def _require_scheduled(cls, trigger: Trigger) -> Trigger:
        if trigger is not Trigger.SCHEDULED:
            raise ValueError("expected scheduled")
        return trigger


class ScheduleBody(ScheduleRules):
    run: ScheduledRun | None = Field(default=None, description="request for the run of each occurrence")
    flow: dict[str, JsonValue] | None = Field(
        default=None,
        description="in place of a run: definition for the flow of each occurrence, as for `POST /v1/flows`",
    )
    manager: ScheduledManager | None = Field(
        default=None,
        description="in place of a run: crawl manager of each occurrence; its flow id is the schedule's name",
    )
    overlap: Overlap = Field(
        default=Overlap.SKIP, strict=False, description="rule while an earlier run of the schedule is open"
    )
    paused: bool = Field(default=False, description="make the schedule paused; an existing schedule keeps its state")


class PauseBody(Request):
    reason: Annotated[str, Field(max_length=256)] | None = Field(default=None, description="reason, for the record")
    actor: Annotated[str, Field(max_length=256)] | None = Field(
        default=None, description="person or program that asks, for the record, where the token's name stands beside it"
    )


class LimitList(Message):
    limits: list[LimitRecord] = Field(description="scopes with limits or a pause; the installation comes first")


class BackfillBody(Request):
    since: Moment = Field(strict=False, description="from this time on")
    until: Moment | None = Field(default=None, strict=False, description="up to this time; default: now")
    at_once: bool = Field(default=False, description="start all runs at the same time; false: one after another")


class ScheduleList(Message):
    schedules: list[ScheduleSummary]


class Deleted(Message):
    schedule_id: str
    deleted: bool


class Caller(Message):
    name: str
    scopes: list[Scope]


class CrawlerList(Message):
    crawlers: list[str]


class CrawlerRunList(Message):
    crawlers: list[CrawlerRuns]


class RunPage(Message):
    runs: list[RunSummary]
    next: str | None = Field(description="cursor of the next page; none: this is the last page")


class RunCounts(Message):
    counts: dict[ListedStatus, int] = Field(description="runs by status; a status without runs is left out")


class RunView(RunOverview):
    """A run with timeline, exports and notices, without tasks."""

    main_task: TaskStatus | None = Field(description="status of task 0, whose main job starts the run")
    notices: list[Notice] = Field(description="sent notices in order; only the last notice of progress")
    temporal_url: str | None = Field(
        default=None, description="address of the run's workflow in Temporal's Web UI; none: the UI is not configured"
    )


class TaskPage(Message):
    tasks: list[TaskLine]
    total: int = Field(description="number of the run's tasks, or of its tasks with the requested status")
    next: int | None = Field(description="`first` of the next page; none: this is the last page")


class Exported(Message):
    exports: list[ExportRecord]
