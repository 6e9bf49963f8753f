"""Inputs and results for the activities of a run: record or take over, deploy, and stop; and what waits for people."""

from datetime import datetime

from pydantic import Field

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.model.requests import AcceptedRequest, StopRequest
from crawler_lifecycle.model.run_plan import ExportsOwed, RunInput, RunPlan
from crawler_lifecycle.model.states import Intent, RunStatus, StopPhase


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


class LogCancellation(RunInput):
    """Record a stop after the workflow has accepted the stop."""

    stop: StopRequest
    asked_at: datetime = Field(description="time of the stop request")
    ends_as: str | None = Field(default=None, description="the limit, if the workflow itself made the stop")


class NotePhase(RunInput):
    """Stop phase for the run's timeline. The timeline shows a phase once."""

    phase: StopPhase
    message: str


class StopAnswer(Message):
    """Answer to a stop if the caller waits for the acceptance. The stop's proof comes later."""

    run_id: int | None = Field(default=None, description="none: the run is not recorded yet, and gets no job")
    forced: bool = Field(description="whether this or an earlier stop is a force")
    again: bool = Field(description="whether an earlier stop was under way already")


class StopTasks(RunInput):
    """Ask tasks' jobs to end, or kill the jobs. The activity decides between the two."""

    tasks: str = Field(default="", description="task numbers as ranges; empty: all tasks with a job in the cluster")


class StopReport(Message):
    """Result for stopping a page with jobs."""

    asked: int = Field(description="number of jobs that were asked to end or killed")
    rest: str = Field(default="", description="tasks of the further pages, as ranges; empty: no further page")


class FlowsInNeed(Message):
    """Flows with the same need."""

    total: int
    flows: list[str] = Field(description="ids of the flows, oldest first, at most ten")


class RequestsInNeed(Message):
    """Accepted requests for runs without a run."""

    total: int
    workflows: list[str] = Field(description="ids of the workflows, at most ten")


class Attention(Message):
    """Counted waits for people, hosts and room."""

    failed_runs: int = Field(description="runs created in the last 24 hours that failed, without stopped runs")
    more_failed_runs: bool = Field(
        default=False, description="whether more may have failed: only the newest are counted, about 200"
    )
    with_failed_items: FlowsInNeed = Field(
        description="flows that ended in the last 24 hours with failed items of a manager, without cancelled flows"
    )
    saturated_runs: int = Field(description="runs that have waited for room in the cluster for five minutes or longer")
    more_saturated_runs: bool = Field(
        default=False, description="whether there may be more: up to 500 that wait for one cause are counted"
    )
    awaiting_approval: FlowsInNeed = Field(description="flows with an approval that nobody has decided yet")
    without_host: FlowsInNeed = Field(description="flows with a step without a host")
    without_run: RequestsInNeed | None = Field(
        description="requests accepted more than a minute ago that no worker has made a run; null: Temporal does not "
        "answer"
    )
    open_findings: int = Field(description="open findings of audits")
    pauses: int = Field(description="paused scopes: the installation, crawlers and labels")
    audit_problem: str | None = Field(description="why no audit was complete lately; null: the last audit was in time")


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
