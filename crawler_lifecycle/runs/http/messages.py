"""Models of the API's request bodies and answers about runs, crawlers and tokens."""

from datetime import datetime
from typing import Annotated

from pydantic import Field, field_validator

from crawler_lifecycle.base.base import Message, Request
from crawler_lifecycle.http.tokens import Scope
from crawler_lifecycle.model.notices import Notice
from crawler_lifecycle.model.records import CrawlerRuns, ExportRecord, RunOverview, RunSummary, TaskLine
from crawler_lifecycle.model.requests import MOST_TASKS_EVER, RETRIES, RunParameters
from crawler_lifecycle.model.retries import RequestedRetries
from crawler_lifecycle.model.states import TaskStatus, Trigger


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


class Caller(Message):
    name: str
    scopes: list[Scope]


class CrawlerList(Message):
    crawlers: list[str]


class CrawlerRunList(Message):
    crawlers: list[CrawlerRuns]


class RunPage(Message):
    runs: list[RunSummary]
    since: datetime | None = Field(description="creation time down to which the list goes; none: down to the first run")
    next: str | None = Field(
        description="cursor of the next page, also after a page with fewer runs than `limit`; none: this is the last "
        "page"
    )


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
