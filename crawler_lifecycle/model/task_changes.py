"""Inputs and results for a look's steps: observe the cluster, write changed rows, collect and keep evidence."""

from datetime import datetime

from pydantic import Field

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.model.looks import OutcomeFacts
from crawler_lifecycle.model.requests import FlowLink
from crawler_lifecycle.model.retries import NextAttempt
from crawler_lifecycle.model.run_plan import RunInput
from crawler_lifecycle.model.states import Intent, TaskStatus

LOG_NOT_READ = "log not read"  # in a task's events, a line with this beginning says why the last log lines are absent


class ActiveTasks(Message):
    """The tasks to compare in a look, and the nudge to answer."""

    by_status: dict[TaskStatus, str] = Field(description="task numbers as ranges (`0-3,7`), by status")
    nudge: int = Field(default=0, description="number of the run's last nudge")
    intent: Intent = Intent.RUN


class LookAt(RunInput):
    """Look at these tasks' jobs."""

    active: ActiveTasks
    stopped_at: datetime | None = Field(default=None, description="begin of the stop under way; none: no stop")


class TaskChange(Message):
    """New values for a task's row, where the row differs from the cluster."""

    task: int
    attempt: int
    version: int = Field(description="version of the compared row; a row with a newer version is not changed")
    status: TaskStatus
    job_uid: str | None = None
    job_name: str | None = None
    cause: str | None = None
    reason: str | None = None
    exit_code: int | None = None
    message: str | None = Field(default=None, description="the cluster's words about the cause or the reason")
    absent_count: int = Field(default=0, description="number of looks in a row without the job")
    started_at: datetime | None = None
    ended_at: datetime | None = None
    facts: OutcomeFacts | None = None
    next_attempt: NextAttempt | None = Field(
        default=None, description="attempt to queue after this end; none: no retry"
    )


class Differences(Message):
    """Differences between rows and cluster."""

    known: bool = Field(description="whether the cluster could be observed; if false, there are no changes")
    changes: list[TaskChange] = []
    evidence: str = Field(default="", description="tasks whose evidence is to be collected, as ranges")
    more: bool = Field(default=False, description="whether another look has to follow for further differences")
    unwanted: str = Field(default="", description="tasks with lingering or overdue jobs in any attempt, as ranges")
    removable: str = Field(default="", description="tasks, recorded as over, whose jobs may be removed, as ranges")
    leaving: int = Field(default=0, description="number of leaving jobs")
    saturated: str | None = Field(default=None, description="cause if the run is saturated; none: not saturated")
    seconds: float = Field(default=0, description="duration of the step, without the wait for a free worker")
    recheck_seconds: float | None = Field(
        default=None, description="pause until a further look at jobs that are absent, but not for sure; none: no pause"
    )
    suspended: bool | None = Field(default=None, description="whether all remaining jobs are suspended; none: unknown")
    problem: str | None = Field(default=None, description="why the cluster could not be observed or not be believed")
    flow: FlowLink | None = Field(
        default=None, description="place in the flow to notify of the ended tasks; none: the run belongs to no flow"
    )


class StatusWrite(RunInput):
    """Write a look's changed rows."""

    changes: list[TaskChange]
    flow: FlowLink | None = Field(
        default=None, description="place in the flow to notify of the ended tasks; none: the run belongs to no flow"
    )


class RowsWritten(Message):
    """Result for a write, counted in rows."""

    written: int
    stale: int = Field(default=0, description="unchanged rows with a newer version; the next look compares these rows")


class CloseLook(RunInput):
    """Write a look's end: its result, and the next look's time."""

    nudge: int = Field(default=0, description="number of the nudge that the look answers")
    known: bool = Field(default=True, description="whether the cluster could be observed")
    problem: str | None = None
    saturated: str | None = Field(default=None, description="cause if the run is saturated; none: not saturated")
    next_look_at: datetime | None = None


class AliveTasks(Message):
    """Counts for all open tasks."""

    queued: int
    pending: int = Field(description="DEPLOYING or PENDING")
    active: int = Field(description="RUNNING or STOPPING")

    @property
    def total(self) -> int:
        return self.queued + self.pending + self.active


class EvidenceRequest(RunInput):
    """Collect the evidence about tasks."""

    tasks: str = Field(description="task numbers as ranges")


class TaskEvidence(Message):
    """Evidence about a task's end, bounded in size."""

    task: int
    attempt: int
    job_uid: str | None = Field(
        default=None, description="job of the evidence; none: only the attempt identifies the job"
    )
    message: str | None = None
    node: str | None = None
    restarts: int = 0
    log_tail: str = ""
    events: list[str] = []


class EvidencePage(Message):
    items: list[TaskEvidence]
    rest: str = Field(default="", description="tasks for further pages, as ranges")


class EvidenceWrite(RunInput):
    items: list[TaskEvidence]
