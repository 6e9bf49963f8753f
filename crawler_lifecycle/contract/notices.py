"""What do we tell the outside about a run: front ends (notices) and pipelines (events)?

Every notice and event has an id that is the same on every try, so that a receiver sees it once.
"""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.states import RunStatus, TaskStatus


class NoticeKind(StrEnum):
    STARTED = "started"
    PROGRESS = "progress"
    STOPPED = "stopped"
    FINISHED = "finished"


class Notice(Message):
    """For people who watch."""

    notice_id: str
    kind: NoticeKind
    run_id: int
    run_uid: str
    crawler: str
    status: RunStatus
    reason: str | None
    tasks: dict[TaskStatus, int]
    at: datetime


class WebhookNotice(Message):
    """The body of a webhook. Its id, the moment it was sent and its signatures are in the headers."""

    type: str = Field(description="`run.` and the kind")
    timestamp: datetime = Field(description="when it was so, whenever it is sent")
    data: Notice


class ExportKind(StrEnum):
    RUN_ENDED = "run_ended"
    FILES_READY = "files_ready"


class ExportEvent(Message):
    """For programs that collect the data."""

    event_id: str
    kind: ExportKind
    end: int = Field(default=1, description="counts the ends of a run that was reopened")
    run_id: int
    run_uid: str
    crawler: str
    status: RunStatus
    reason: str | None
    tasks: dict[TaskStatus, int]
    supporting_files: str
    files: int | None = None
    bytes: int | None = None
    at: datetime
