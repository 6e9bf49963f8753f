"""Models for the outside: notices for front ends, and export events for pipelines.

A notice or event has the same id on every try, so receivers can drop repeats. `closing_notice` chooses a run's closing
notice, and `is_undelivered` finds a failed delivery of the notice.
"""

from collections.abc import Collection
from datetime import datetime
from enum import StrEnum

from pydantic import Field, JsonValue

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.model.crawl_results import Stats
from crawler_lifecycle.model.flow_states import FlowEvent, FlowNotice
from crawler_lifecycle.model.naming import event_id
from crawler_lifecycle.model.reasons import BY_A_STOP
from crawler_lifecycle.model.records import Explanation
from crawler_lifecycle.model.states import ExportKind, RunStatus, TaskStatus
from crawler_lifecycle.model.supervision import AuditedRun


class NoticeKind(StrEnum):
    STARTED = "started"
    PROGRESS = "progress"
    STOPPED = "stopped"
    FINISHED = "finished"


class Notice(Message):
    """Notice about a run, for people."""

    notice_id: str = Field(description="a UUID, the same on every try, by which receivers drop repeats")
    kind: NoticeKind
    run_id: int
    run_uid: str = Field(description="a UUID, which unlike the RunID is never used again")
    crawler: str
    status: RunStatus
    reason: str | None = Field(description="reason of the end; none before the end")
    tasks: dict[TaskStatus, int] = Field(description="number of tasks by status")
    at: datetime = Field(description="time of the reported state")
    final: bool = Field(description="whether the notice is the closing notice of an end: `stopped` or `finished`")
    explanation: Explanation | None = Field(
        description="explanation of the end, and the actor of a stop; only where `final` is true"
    )
    outcome: str | None = Field(description="one word for the end, such as `finished`; closing notice only")
    stats: Stats | None = Field(description="sums of the numbers in the tasks' crawl results; closing notice only")
    result: JsonValue = Field(description="the main task's own result; closing notice only")

    @property
    def topic(self) -> str:
        """Subject and kind, by which receivers choose notices."""
        return f"run.{self.kind}"


class WebhookNotice(Message):
    """A webhook request's body. The HTTP headers have the webhook's id, its sending time and its signatures."""

    type: str = Field(description="`run.` and the notice's kind, or `flow.ended`")
    timestamp: datetime = Field(description="time of the state, which may be long before the request")
    data: Notice | FlowNotice


class ExportEvent(Message):
    """Event about a run's end, for programs with an interest in the data."""

    event_id: str = Field(description="a UUID, the same on every try, by which receivers drop repeats")
    kind: ExportKind
    end: int = Field(default=1, description="number of the end; a reopened run has several ends")
    run_id: int
    run_uid: str = Field(description="a UUID, which unlike the RunID is never used again")
    crawler: str
    status: RunStatus
    reason: str | None = Field(description="reason of the end")
    tasks: dict[TaskStatus, int] = Field(description="number of tasks by status")
    outcome: str | None = Field(default=None, description="one word for the end, such as `finished`")
    stats: Stats | None = Field(default=None, description="sums of the numbers in the tasks' crawl results")
    result: JsonValue = Field(default=None, description="the main task's own result")
    supporting_files: str = Field(description="(future) place of the archive: `s3://bucket/key`, or a path")
    files: int | None = Field(default=None, description="number of files in the archive. Only with `files_ready`")
    bytes: int | None = Field(default=None, description="size of these files before compression")
    size: int | None = Field(default=None, description="size of the archive in bytes; 0: there is no archive")
    sha256: str | None = Field(default=None, description="checksum of the archive, in hexadecimal digits")
    left_out: int | None = Field(
        default=None, description="number of entries that the archive leaves out, such as files that cannot be read"
    )
    at: datetime = Field(description="time of the end")


AnyNotice = Notice | FlowNotice
AnyEvent = ExportEvent | FlowEvent


def closing_notice(run: AuditedRun) -> NoticeKind:
    return NoticeKind.STOPPED if run.reason in BY_A_STOP else NoticeKind.FINISHED


def is_undelivered(run: AuditedRun, notice_keys: Collection[str]) -> bool:
    """Return whether the timeline shows a failure for the present end's closing notice, and no later delivery.

    The keys are made as `delivery.activities.notices` makes them when it writes these lines.
    """
    notice = f"{closing_notice(run)}:{run.end_number}"
    failure = event_id(run.run_uid, f"log:undelivered:{notice}")
    later_delivery = event_id(run.run_uid, f"log:delivered:{notice}")
    return failure in notice_keys and later_delivery not in notice_keys
