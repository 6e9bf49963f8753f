"""First stage: record a run or take a run over, and supervise the run."""

from datetime import datetime

from pydantic import Field

from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.requests import AcceptedRequest
from crawler_lifecycle.contract.states import Intent, RunStatus
from crawler_lifecycle.contract.steps.exports import ExportsOwed
from crawler_lifecycle.contract.steps.run import RunPlan, RunRef


class CreateHistory(Message):
    request: AcceptedRequest
    workflow_id: str
    first_execution_run_id: str = Field(description="the same for every execution of one request")


class TakeOver(Message):
    """Take over a run that exists."""

    run_id: int
    crawler: str
    reopen: bool = False
    workflow_id: str
    temporal_run_id: str
    began_at: datetime | None = Field(default=None, description="when that execution began: a later one goes before it")


class TakenOver(Message):
    """Result of a takeover: `plan` if the workflow supervises the run from now on; otherwise the obstacle."""

    plan: RunPlan | None = None
    status: RunStatus
    intent: Intent = Intent.RUN
    started_at: datetime | None = None
    exported: bool = False
    owed: ExportsOwed | None = Field(default=None, description="what is left to export of a run that is over")
    gave_up: str | None = Field(default=None, description="the reason of an end that is under way")
    stopped_at: datetime | None = Field(default=None, description="when the stop that is under way was first asked for")
    jobs_asked_at: datetime | None = Field(default=None, description="when that stop first asked the jobs to end")
    supervised_by: str | None = Field(default=None, description="the workflow that the run belongs to, where not ours")


class OwnExecution(Message):
    workflow_id: str
    temporal_run_id: str


class HoldLimits(Message):
    """Stop the run's limit clock, or let the clock go on."""

    run: RunRef
    held: bool
    number: int = Field(description="of this change, from 1: the same one is noted once")


class RegisterWorkflow(Message):
    run: RunRef
    workflow_id: str


class HandedOver(Message):
    """Result if the run belongs to a workflow with another id, and goes on there."""

    run_id: int
    workflow_id: str | None
