"""Inputs and results for the steps in a run's stage 1: record a new run, or take over an existing run."""

from datetime import datetime

from pydantic import Field

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.model.requests import AcceptedRequest
from crawler_lifecycle.model.run_plan import ExportsOwed, RunInput, RunPlan
from crawler_lifecycle.model.states import Intent, RunStatus


class CreateHistory(Message):
    """Record a new run."""

    request: AcceptedRequest
    workflow_id: str
    first_execution_run_id: str = Field(description="first execution for the request; a continuation keeps this id")


class TakeOver(Message):
    """Take over an existing run: from now on the workflow is its supervisor."""

    run_id: int
    crawler: str = Field(description="crawler in the request, which must be the crawler of the run")
    reopen: bool = False
    workflow_id: str
    temporal_run_id: str
    began_at: datetime | None = Field(
        default=None,
        description="begin of the execution; the takeover is refused if the present supervisor began later",
    )


class TakenOver(Message):
    """Result for a takeover."""

    plan: RunPlan | None = Field(default=None, description="none: another workflow supervises the run, `supervised_by`")
    status: RunStatus
    intent: Intent = Intent.RUN
    started_at: datetime | None = None
    exported: bool = Field(default=False, description="whether the last end is announced and archived")
    owed: ExportsOwed | None = Field(default=None, description="pending exports; none: the run is not over")
    gave_up: str | None = Field(default=None, description="the limit, if the stop under way began at a limit")
    stopped_at: datetime | None = Field(default=None, description="time of the first request for the stop under way")
    jobs_asked_at: datetime | None = Field(default=None, description="time when this stop first asked jobs to end")
    supervised_by: str | None = Field(default=None, description="id of the other workflow that supervises the run")


class OwnExecution(Message):
    """Cancel the workflow's own execution: the workflow then closes as cancelled."""

    workflow_id: str
    temporal_run_id: str


class HoldLimits(RunInput):
    """Stop or resume the run's limit clock."""

    held: bool = Field(description="true: stop the clock; false: resume the clock")
    number: int = Field(description="number of the change, from 1: a repeated change is noted once")


class RegisterWorkflow(RunInput):
    """Record the workflow's id: a stop or a resume reaches the run by the id."""

    workflow_id: str


class HandedOver(Message):
    """Result if the run belongs to another workflow: the run continues there."""

    run_id: int
    workflow_id: str | None = Field(description="id of the other workflow")
