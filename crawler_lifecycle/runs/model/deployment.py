"""Inputs and results for the steps in a run's stage 2: deploy the main job, and wait for its start."""

from datetime import datetime

from pydantic import Field

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.model.run_plan import RunInput
from crawler_lifecycle.model.states import Intent, RunStatus


class DeploymentOutcome(Message):
    """Result for a try to deploy a task."""

    job_id: str | None = Field(default=None, description="uid of the job; none: there is no job, for the `cause`")
    cause: str | None = None
    message: str | None = None
    refused: bool = Field(default=False, description="whether no later try can succeed")
    held: bool = Field(default=False, description="whether the run waits for its permit, and the dispatcher continues")
    saturated: str | None = Field(default=None, description="cause if the run is saturated; none: not saturated")
    intent: Intent = Intent.RUN


class MainJobStatus(Message):
    """The main job's status. While `started` is false, `cause`, `since` and `message` describe the job's wait."""

    known: bool = Field(default=True, description="whether the job could be observed")
    started: bool = Field(default=False, description="whether the job runs or has run")
    vanished: bool = Field(default=False, description="whether a complete look does not show the job")
    started_at: datetime | None = Field(default=None, description="start of the job; none: the cluster shows no time")
    intent: Intent = Intent.RUN
    cause: str | None = None
    since: datetime | None = Field(default=None, description="time from which on the job has waited for this cause")
    message: str | None = None
    saturated: str | None = Field(default=None, description="cause if the run is saturated; none: not saturated")
    seconds: float = Field(default=0, description="duration of the step, without the wait for a free worker")


class StartRun(RunInput):
    """Record a run's start, because its main job runs or has run."""

    started_at: datetime | None = Field(default=None, description="start of the main job; none: unknown")


class RunMoment(Message):
    """A run's status, and the time when the run started."""

    status: RunStatus
    at: datetime
