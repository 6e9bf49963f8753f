"""Outcome facts about a job's program and its end. Looks read the facts from the cluster's objects.

The database keeps the facts with the task, since the facts decide the task's status even when the cluster's objects
are gone. Evidence (the last log lines, events, the node) never decides.
"""

from datetime import datetime

from pydantic import Field

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.model.crawl_result import CrawlResult

LONGEST_MESSAGE = 300  # characters: a look's result with very many ended tasks must fit into a Temporal payload


class OutcomeFacts(Message):
    """Facts about a job's program. The facts count only for the task with the same `job_uid` in its row."""

    job_uid: str
    pod_uid: str | None = Field(default=None, description="pod that showed the facts; none: only the job showed facts")
    succeeded: bool | None = Field(
        default=None, description="whether the main program succeeded; none: no end was seen"
    )
    told_to_end: bool | None = Field(
        default=None, description="whether a request to end came before the program's end; none: unknown"
    )
    told_by: str | None = Field(default=None, description="sender of the request to end, in one word")
    reason: str | None = Field(default=None, description="reason of a failure, in one word")
    exit_code: int | None = None
    message: str | None = Field(default=None, description="last message of the program or of its pod")
    started_at: datetime | None = None
    ended_at: datetime | None = None
    result: CrawlResult | None = Field(default=None, description="the program's own account")

    @property
    def has_ended(self) -> bool:
        """Whether the facts show the program's end."""
        return self.succeeded is not None

    @property
    def ended_by_itself(self) -> bool:
        """Whether the program surely ended before any request to end."""
        return self.has_ended and self.told_to_end is False
