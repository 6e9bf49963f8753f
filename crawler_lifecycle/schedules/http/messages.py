"""Models of the API's request bodies and answers about schedules."""

from typing import Annotated

from pydantic import Field, JsonValue, field_validator

from crawler_lifecycle.base.base import Message, Request
from crawler_lifecycle.model.requests import RETRIES, Moment, RunParameters
from crawler_lifecycle.model.retries import RequestedRetries
from crawler_lifecycle.model.states import Trigger
from crawler_lifecycle.schedules.model.schedules import Overlap, ScheduledManager, ScheduleRules, ScheduleSummary


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


class BackfillBody(Request):
    since: Moment = Field(strict=False, description="from this time on")
    until: Moment | None = Field(default=None, strict=False, description="up to this time; default: now")
    at_once: bool = Field(default=False, description="start all runs at the same time; false: one after another")


class ScheduleList(Message):
    schedules: list[ScheduleSummary]


class Deleted(Message):
    schedule_id: str
    deleted: bool
