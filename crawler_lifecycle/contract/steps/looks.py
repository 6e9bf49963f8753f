"""Inputs and results for a look's steps: observe the cluster, read and write evidence, write the differences."""

from datetime import datetime

from pydantic import Field

from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.outcome_facts import OutcomeFacts
from crawler_lifecycle.contract.states import Intent, TaskStatus
from crawler_lifecycle.contract.steps.run import RunInput

LOG_NOT_READ = "log not read"  # prefix of the event with the reason why the last log lines are absent


class ActiveTasks(Message):
    """A look's beginning: task numbers as ranges (`0-3,7`) by status, and the nudge to answer."""

    by_status: dict[TaskStatus, str]
    nudge: int = 0
    intent: Intent = Intent.RUN


class LookAt(RunInput):
    active: ActiveTasks
    stopped_at: datetime | None = Field(default=None, description="begin of the stop under way")


class TaskChange(Message):
    """Change for an outdated row: the row's version, and its new values."""

    task: int
    attempt: int
    version: int
    status: TaskStatus
    job_uid: str | None = None
    job_name: str | None = None
    cause: str | None = None
    reason: str | None = None
    exit_code: int | None = None
    message: str | None = Field(default=None, description="the cluster's words about the cause or the reason")
    absent_count: int = 0
    started_at: datetime | None = None
    ended_at: datetime | None = None
    facts: OutcomeFacts | None = None


class Differences(Message):
    """Differences between rows and cluster. `known` is false if the cluster could not be observed: then there is no
    change.
    """

    known: bool
    changes: list[TaskChange] = []
    evidence: str = Field(default="", description="tasks whose evidence is to be collected, as ranges")
    more: bool = Field(default=False, description="further differences are left for another look")
    unwanted: str = Field(default="", description="tasks with lingering or overdue jobs in any attempt, as ranges")
    removable: str = Field(default="", description="tasks on record as over whose jobs may be removed")
    leaving: int = Field(default=0, description="number of leaving jobs")
    saturated: str | None = Field(default=None, description="cause, if there has been no room for a while")
    seconds: float = Field(default=0, description="duration of the step, without the wait for a worker")
    suspended: bool | None = Field(default=None, description="all remaining jobs are suspended; none: unknown")
    problem: str | None = None


class StatusWrite(RunInput):
    changes: list[TaskChange]


class Written(Message):
    """Result for a write. `stale` counts rows with a newer version; the next look compares them again."""

    written: int
    stale: int = 0


class CloseLook(RunInput):
    """Close a look: the nudge to acknowledge, and the next look's time."""

    nudge: int = 0
    known: bool = True
    problem: str | None = None
    saturated: str | None = None
    next_look_at: datetime | None = None


class AliveTasks(Message):
    queued: int
    pending: int
    active: int

    @property
    def total(self) -> int:
        return self.queued + self.pending + self.active


class EvidenceRequest(RunInput):
    tasks: str


class TaskEvidence(Message):
    """Evidence about a task's end, bounded in size."""

    task: int
    attempt: int
    job_uid: str | None = Field(default=None, description="job of the evidence; none: known by task and attempt")
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
