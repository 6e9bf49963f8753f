"""Outcome facts about a job's program and its end. The first look after the end reads them from the cluster's objects.

The database keeps the facts with the task. They decide the task's status once the objects are gone. Evidence (the
last log lines, events, the node) decides nothing.
"""

from datetime import datetime

from pydantic import Field

from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.crawl_result import CrawlResult

LONGEST_MESSAGE = 300  # a look's result with thousands of ended tasks must fit a payload


class OutcomeFacts(Message):
    """Facts about a job's program. They count only for the task with the job `job_uid`."""

    job_uid: str
    pod_uid: str | None = Field(default=None, description="the pod with the facts; none: only the job had facts")
    succeeded: bool | None = Field(default=None, description="whether the main program succeeded; none: not ended")
    told_to_end: bool | None = Field(
        default=None, description="whether a request to end came before the end; none: unknown"
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
        return self.succeeded is not None

    @property
    def ended_by_itself(self) -> bool:
        """Whether the program surely ended before any request to end."""
        return self.has_ended and self.told_to_end is False
