"""The lifecycle workflow's state: for its continuation, and for the query `state`."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.requests import StopRequest
from crawler_lifecycle.contract.states import Intent
from crawler_lifecycle.contract.steps.run import RunPlan


class Stage(StrEnum):
    INITIATION = "initiation"
    DEPLOYMENT = "deployment"
    RECONCILIATION = "reconciliation"
    STOPPING = "stopping"
    COMPLETION = "completion"


class AcceptedStop(Message):
    """A stop, and the time when the stop was requested."""

    stop: StopRequest
    at: datetime
    ends_as: str | None = None
    since: datetime | None = Field(default=None, description="if an earlier supervisor was asked first: when")
    told_at: datetime | None = Field(default=None, description="if it asked the jobs to end: when")

    @property
    def first_at(self) -> datetime:
        return self.since or self.at


class Carried(Message):
    """State that a workflow execution hands to its continuation. Without continuations a history would grow without
    end.
    """

    plan: RunPlan
    anchor: datetime | None = Field(default=None, description="start of reconciliation; none: still deploying")
    look_number: int = 1
    looks: int = 0
    nudged: bool = False
    resumed: bool = Field(default=False, description="another supervisor was here before")
    stopping: AcceptedStop | None = Field(default=None, description="the stop that is under way")
    forced: bool = False
    asked: list[AcceptedStop] = Field(default=[], description="stops that are not on record yet")
    saturated: str | None = Field(default=None, description="why there is no room, as it is listed")
    cancelled: bool = Field(default=False, description="the stop was a cancel, and the workflow is to close so")
    owes_start: bool = Field(default=False, description="the notice of the start was not delivered yet")
    gave_up: str | None = Field(default=None, description="why the run itself ends, where nobody asked for it")


class Continuation(Message):
    """Input of a continuation. Only the previous execution creates such an input."""

    carried: Carried


class LifecycleState(Message):
    """Answer to the workflow's query `state`."""

    stage: Stage
    run_id: int | None = None
    run_uid: str | None = None
    waiting_for: str
    intent: Intent = Intent.RUN
    next_look_at: datetime | None = None
    looks: int = 0
    alive: int | None = None
