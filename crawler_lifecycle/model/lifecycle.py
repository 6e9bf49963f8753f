"""Models for a run's workflow: its state for a continuation, and its answer to the query `state`."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.run_plan import RunPlan
from crawler_lifecycle.model.states import Intent


class Stage(StrEnum):
    INITIATION = "initiation"
    DEPLOYMENT = "deployment"
    RECONCILIATION = "reconciliation"
    STOPPING = "stopping"
    COMPLETION = "completion"


class AcceptedStop(Message):
    """An accepted stop in the workflow."""

    stop: StopRequest
    at: datetime = Field(description="time of the request if known, or else of its acceptance")
    ends_as: str | None = Field(default=None, description="the limit, if the workflow itself made the stop")
    since: datetime | None = Field(
        default=None, description="time of the first request, if an earlier supervisor got the request"
    )
    told_at: datetime | None = Field(default=None, description="time when an earlier supervisor asked the jobs to end")

    @property
    def first_requested_at(self) -> datetime:
        """Time when the present or an earlier supervisor got the first request for the stop."""
        return self.since or self.at


class Carried(Message):
    """State for the workflow's next execution: a workflow continues as new before its history is too long."""

    plan: RunPlan
    anchor: datetime | None = Field(default=None, description="start of reconciliation; none: not started yet")
    look_number: int = Field(default=1, description="number of the next look that is due by the pacing")
    recheck_at: datetime | None = Field(default=None, description="time of a look that the last look asked for")
    unseen_since: datetime | None = Field(default=None, description="begin of looks that could not observe the cluster")
    looks: int = Field(default=0, description="number of looks until now, shown to people")
    nudged: bool = Field(default=False, description="no look has answered the last nudge yet")
    resumed: bool = Field(default=False, description="the run had an earlier supervisor")
    stopping: AcceptedStop | None = Field(default=None, description="the stop that is under way")
    forced: bool = Field(default=False, description="a stop with force was accepted")
    asked: list[AcceptedStop] = Field(default=[], description="stops that are not recorded yet")
    saturated: str | None = Field(default=None, description="cause if the run is saturated; none: not saturated")
    cancelled: bool = Field(default=False, description="the stop was a cancel: the workflow closes as cancelled")
    owes_start: bool = Field(default=False, description="the start notice is not delivered yet")
    gave_up: str | None = Field(
        default=None, description="reason why the run ends without a stop request: a limit, or a refused deployment"
    )


class Continuation(Message):
    """Input for the workflow's next execution after a continue-as-new. Doors never send such an input."""

    carried: Carried


class LifecycleState(Message):
    """Answer to the workflow's query `state`. `run_id` and `run_uid` are None until the run is recorded."""

    stage: Stage
    run_id: int | None = None
    run_uid: str | None = None
    waiting_for: str
    intent: Intent = Intent.RUN
    next_look_at: datetime | None = None
    looks: int = Field(default=0, description="number of looks until now")
    alive: int | None = Field(default=None, description="number of tasks that are not over; none: no look yet")
