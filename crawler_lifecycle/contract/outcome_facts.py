"""Outcome facts: how a job's program ended, as the first look after the end read from the cluster's objects.

The database keeps the facts with the task. They decide the task's status once the objects are gone. Debug evidence (the
last log lines, events, the node) decides nothing.
"""

from datetime import datetime

from pydantic import Field

from crawler_lifecycle.contract.base import Message

LONGEST_MESSAGE = 300  # thousands of tasks may end in one look, and its result has to fit a payload


class OutcomeFacts(Message):
    """Facts about a job's program. They count only for the task with the job `job_uid`."""

    job_uid: str
    pod_uid: str | None = Field(default=None, description="none: the job alone told the facts")
    succeeded: bool | None = Field(default=None, description="how the main program ended; none: it has not ended")
    told_to_end: bool | None = Field(default=None, description="before it ended; none: not known")
    told_by: str | None = Field(default=None, description="who told it to end, in one word")
    reason: str | None = Field(default=None, description="why it failed, in one word")
    exit_code: int | None = None
    message: str | None = Field(default=None, description="the program's own last message, or its pod's")
    started_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def has_ended(self) -> bool:
        return self.succeeded is not None

    @property
    def ended_by_itself(self) -> bool:
        """Whether the program is known to have ended before a request to end."""
        return self.has_ended and self.told_to_end is False
