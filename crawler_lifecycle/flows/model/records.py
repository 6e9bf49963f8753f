"""Records for people: a flow's status, its members, and explanations."""

from collections import Counter
from datetime import datetime, timedelta

from pydantic import Field, JsonValue

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.model.crawl_result import Stats
from crawler_lifecycle.model.flow_states import FlowState, MemberState
from crawler_lifecycle.model.states import RunStatus


class FlowStatus(Message):
    """Status for a flow, or for a sub-workflow with all its levels."""

    id: str
    name: str | None = None
    state: FlowState = FlowState.UNKNOWN
    ok: bool = Field(default=False, description="whether all members without dependents are completed")
    total: int = 0
    counts: Counter[MemberState] = Field(
        default=Counter(), description="members by state; states without members are absent, and count 0 in Python"
    )
    started_at: datetime | None = None
    stopped_at: datetime | None = None
    elapsed: timedelta | None = Field(default=None, description="time since the start, up to the end or to now")
    subs: dict[str, "FlowStatus"] = {}

    @property
    def duration(self) -> timedelta | None:
        """Time from the first start to the last end; None while the flow is open, or if no member has started."""
        if self.started_at is None or self.stopped_at is None:
            return None
        return self.stopped_at - self.started_at


class CrawlReceipt(Message):
    """Result for a crawl, as its dependents see the crawl."""

    run_id: int
    run_uid: str
    status: RunStatus
    reason: str | None = None
    outcome: str | None = None
    tasks: int
    archive: str | None = Field(default=None, description="address for the archive with the run's files")
    stats: Stats | None = Field(default=None, description="sums over all tasks, such as `items`")
    result: JsonValue = Field(default=None, description="the main task's own result")
    files: str | None = Field(
        default=None, description="folder with the run's files, for a step on a machine with the folder"
    )


class TaskReceipt(Message):
    """Item for a step per task in a crawl. The crawl may still execute."""

    crawl: str = Field(description="path for the crawl")
    task: int
    run_id: int
    run_uid: str
    files: str | None = Field(
        default=None, description="folder with the run's files, for a step on a machine with the folder"
    )


class Decision(Message):
    """A person's decision about an approval."""

    approved: bool
    actor: str | None = None
    note: str | None = None
    at: datetime


class Why(Message):
    """Explanation for a member's state, down to its blocking members."""

    path: str
    state: str
    cause: str | None = Field(default=None, description="word for the present wait, or the reason for the end")
    since: datetime | None = None
    until: datetime | None = None
    more: int = Field(default=0, description="further blocking members, which the list leaves out")
    because: tuple["Why", ...] = ()
