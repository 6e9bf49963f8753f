"""Inputs and results for the second stage's steps: deploy the main job, and wait for its start."""

from datetime import datetime

from pydantic import Field

from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.states import Intent, RunStatus
from crawler_lifecycle.contract.steps.run import RunInput


class DeploymentOutcome(Message):
    """Result for a try to deploy: `job_id`, or the cause why there is no job. `refused`: no later try can succeed."""

    job_id: str | None = None
    cause: str | None = None
    message: str | None = None
    refused: bool = False
    saturated: str | None = Field(default=None, description="cause, if there has been no room for a while")
    intent: Intent = Intent.RUN


class MainJobStatus(Message):
    """The main job's status. `started`: the job runs or has run; otherwise `cause` and `since` describe its wait."""

    known: bool = Field(default=True, description="whether the job could be observed")
    started: bool = False
    vanished: bool = Field(default=False, description="a complete look does not show the job")
    started_at: datetime | None = Field(default=None, description="start of the job, if the cluster tells")
    intent: Intent = Intent.RUN
    cause: str | None = None
    since: datetime | None = None
    message: str | None = None
    saturated: str | None = Field(default=None, description="cause, if there has been no room for a while")
    seconds: float = Field(default=0, description="duration of the step, without the wait for a worker")


class StartRun(RunInput):
    """Record a run's start: its main job runs or has run."""

    started_at: datetime | None = Field(default=None, description="start of the main job; none: unknown")


class RunMoment(Message):
    """A run's status, and the time when the run started."""

    status: RunStatus
    at: datetime
