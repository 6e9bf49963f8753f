"""Inputs and results of the steps for evidence: read from the cluster, write to the database."""

from pydantic import Field

from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.steps.run import RunInput

LOG_NOT_READ = "log not read"  # prefix for the event with the reason why the last log lines are absent


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
