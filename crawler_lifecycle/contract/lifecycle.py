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
    """A stop, accepted by the workflow at the time `at`. `ends_as`: the limit, if the workflow itself made the stop."""

    stop: StopRequest
    at: datetime
    ends_as: str | None = None
    since: datetime | None = Field(default=None, description="time of the request to an earlier supervisor")
    told_at: datetime | None = Field(default=None, description="time when an earlier supervisor asked the jobs to end")

    @property
    def first_at(self) -> datetime:
        return self.since or self.at


class Carried(Message):
    """State for the next execution. A workflow continues as new before its history is too long for Temporal."""

    plan: RunPlan
    anchor: datetime | None = Field(default=None, description="start of reconciliation; none: deployment lasts")
    look_number: int = Field(default=1, description="number of the next look that is due by the pacing")
    looks: int = Field(default=0, description="number of looks so far, shown to people")
    nudged: bool = Field(default=False, description="a nudge is not answered by a look yet")
    resumed: bool = Field(default=False, description="the run had an earlier supervisor")
    stopping: AcceptedStop | None = Field(default=None, description="the stop that is under way")
    forced: bool = Field(default=False, description="a stop with force was accepted")
    asked: list[AcceptedStop] = Field(default=[], description="stops that are not on record yet")
    saturated: str | None = Field(default=None, description="cause of the lack of room, for Temporal's list")
    cancelled: bool = Field(default=False, description="the stop was a cancel: the workflow closes as cancelled")
    owes_start: bool = Field(default=False, description="the start notice is not delivered yet")
    gave_up: str | None = Field(
        default=None, description="reason to end without a request: a limit, or a refused deployment"
    )


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
