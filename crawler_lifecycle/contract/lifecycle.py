"""A run's workflow: its state for the continuation, and its answer to the query `state`."""

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
    """A stop, accepted by the workflow at the time `at`. `ends_as`: the end's reason, if the run gave up."""

    stop: StopRequest
    at: datetime
    ends_as: str | None = None
    since: datetime | None = Field(default=None, description="time of the request to an earlier supervisor")
    told_at: datetime | None = Field(default=None, description="time when an earlier supervisor asked the jobs to end")

    @property
    def first_at(self) -> datetime:
        return self.since or self.at


class Carried(Message):
    """State for the continuation, handed over by the previous execution. Without continuations, a history would have no
    end.
    """

    plan: RunPlan
    anchor: datetime | None = Field(default=None, description="start of reconciliation; none: deployment lasts")
    look_number: int = 1
    looks: int = 0
    nudged: bool = False
    resumed: bool = Field(default=False, description="the run had an earlier supervisor")
    stopping: AcceptedStop | None = Field(default=None, description="the stop that is under way")
    forced: bool = False
    asked: list[AcceptedStop] = Field(default=[], description="stops that are not on record yet")
    saturated: str | None = Field(default=None, description="cause of the lack of room, for Temporal's list")
    cancelled: bool = Field(default=False, description="the stop was a cancel: the workflow closes as cancelled")
    owes_start: bool = Field(default=False, description="the start notice is not delivered yet")
    gave_up: str | None = Field(default=None, description="the reason if the run itself gave up")


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
