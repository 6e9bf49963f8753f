"""Inputs and results for the first stage's steps: record a new run, or take over a run."""

from datetime import datetime

from pydantic import Field

from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.requests import AcceptedRequest
from crawler_lifecycle.contract.states import Intent, RunStatus
from crawler_lifecycle.contract.steps.run import ExportsOwed, RunInput, RunPlan


class CreateHistory(Message):
    request: AcceptedRequest
    workflow_id: str
    first_execution_run_id: str = Field(description="the first execution for the request, also after a continuation")


class TakeOver(Message):
    """Take over an existing run."""

    run_id: int
    crawler: str
    reopen: bool = False
    workflow_id: str
    temporal_run_id: str
    began_at: datetime | None = Field(
        default=None, description="begin of the execution; refused if the present supervisor began later"
    )


class TakenOver(Message):
    """Result for a takeover. With `plan` the workflow supervises the run from now on; otherwise see `supervised_by`."""

    plan: RunPlan | None = None
    status: RunStatus
    intent: Intent = Intent.RUN
    started_at: datetime | None = None
    exported: bool = Field(default=False, description="the last end is announced and archived")
    owed: ExportsOwed | None = Field(default=None, description="missing exports, if the run is over")
    gave_up: str | None = Field(default=None, description="the limit, if the stop under way began at a limit")
    stopped_at: datetime | None = Field(default=None, description="first request for the stop under way")
    jobs_asked_at: datetime | None = Field(default=None, description="first request to the jobs by that stop")
    supervised_by: str | None = Field(default=None, description="workflow that has the run, if not ours")


class OwnExecution(Message):
    workflow_id: str
    temporal_run_id: str


class HoldLimits(RunInput):
    """Stop the run's limit clock, or let the clock go on."""

    held: bool
    number: int = Field(description="number of the change, from 1: a repeated change is noted once")


class RegisterWorkflow(RunInput):
    workflow_id: str


class HandedOver(Message):
    """Result if the run belongs to a workflow with another id, and goes on there."""

    run_id: int
    workflow_id: str | None
