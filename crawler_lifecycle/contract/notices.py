"""Notices for front ends and events for pipelines.

A notice or event keeps its id on every try, so that receivers can drop repeats.
"""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.records import Explanation
from crawler_lifecycle.contract.states import RunStatus, TaskStatus


class NoticeKind(StrEnum):
    STARTED = "started"
    PROGRESS = "progress"
    STOPPED = "stopped"
    FINISHED = "finished"


class Notice(Message):
    """Notice about a run, for people."""

    notice_id: str = Field(description="a UUID, the same on every try; receivers drop repeats by it")
    kind: NoticeKind
    run_id: int
    run_uid: str = Field(description="a UUID; unlike the RunID it never comes back")
    crawler: str
    status: RunStatus
    reason: str | None = Field(description="why the run ended; none before that")
    tasks: dict[TaskStatus, int] = Field(description="how many tasks are in each status that occurs")
    at: datetime = Field(description="when it was so")
    final: bool = Field(description="the last notice of this end of the run, of the kind `stopped` or `finished`")
    explanation: Explanation | None = Field(
        description="why the run ended as it did, and who stopped it; only where `final` is true"
    )


class WebhookNotice(Message):
    """Body of a webhook. The headers have the webhook's id, its sending time and its signatures."""

    type: str = Field(description="`run.` and the kind")
    timestamp: datetime = Field(description="when it was so, whenever it is sent")
    data: Notice


class ExportKind(StrEnum):
    RUN_ENDED = "run_ended"
    FILES_READY = "files_ready"


class ExportEvent(Message):
    """Event about a run's end, for programs that collect the data."""

    event_id: str = Field(description="a UUID, the same on every try; receivers drop repeats by it")
    kind: ExportKind
    end: int = Field(default=1, description="counts the ends of a run that was reopened")
    run_id: int
    run_uid: str = Field(description="a UUID; unlike the RunID it never comes back")
    crawler: str
    status: RunStatus
    reason: str | None = Field(description="of the end")
    tasks: dict[TaskStatus, int] = Field(description="how many tasks are in each status that occurs")
    supporting_files: str = Field(description="where the archive will be, or is: `s3://bucket/key`, or a path")
    files: int | None = Field(default=None, description="in the archive; 0: there is none. Only with `files_ready`")
    bytes: int | None = Field(default=None, description="of these files before they were compressed")
    size: int | None = Field(default=None, description="of the archive in bytes")
    sha256: str | None = Field(default=None, description="of the archive, in hexadecimal digits")
    at: datetime = Field(description="when the run ended")
