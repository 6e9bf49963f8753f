"""States of flows and members, with the words in the database and in messages, and models for a flow's end.

A flow's end is announced by a notice for front ends and an event for pipelines. A notice or event has the same id on
every try, so receivers can drop repeats.
"""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from crawler_lifecycle.base.base import Message

MOST_FAILURES = 10  # failed members in an announcement


class Word(StrEnum):
    """A state as its word, also where a dict or a model with the state is printed."""

    def __repr__(self) -> str:
        return repr(self.value)


class MemberState(Word):
    """A job's state in a flow.

    - `suspended`: a dependency is not satisfied yet
    - `available`: the graph allows the start
    - `scheduled`: the dependencies are satisfied, and the member waits for its time
    - `executing`: an attempt is under way
    - `retryable`: an attempt failed, and the next attempt waits for its pause
    - `completed`: the job has succeeded
    - `cancelled`: a person, a dependency or the member's own code cancelled the member
    - `discarded`: the last allowed attempt failed
    """

    SUSPENDED = "suspended"
    AVAILABLE = "available"
    SCHEDULED = "scheduled"
    EXECUTING = "executing"
    RETRYABLE = "retryable"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    DISCARDED = "discarded"

    @property
    def is_final(self) -> bool:
        """Whether the member changes only by a retry or a reopening."""
        return self in FINAL

    @property
    def is_unstarted(self) -> bool:
        """Whether the member waits for its start, or for its next attempt."""
        return self in UNSTARTED


FINAL = frozenset({MemberState.COMPLETED, MemberState.CANCELLED, MemberState.DISCARDED})
FAILED = frozenset({MemberState.CANCELLED, MemberState.DISCARDED})
UNSTARTED = frozenset({MemberState.SUSPENDED, MemberState.AVAILABLE, MemberState.SCHEDULED})


class FlowState(Word):
    """A flow's state.

    - `executing`: a member is open, or an attempt is not settled
    - `paused`: a person holds new starts back
    - `completed`: all members are completed
    - `cancelled`: members were cancelled, and none was discarded
    - `discarded`: a member was discarded
    - `unknown`: no flow has the id
    """

    EXECUTING = "executing"
    PAUSED = "paused"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    DISCARDED = "discarded"
    UNKNOWN = "unknown"

    @property
    def is_final(self) -> bool:
        """Whether the flow changes only by a retry, a reopening or further members."""
        return self in (FlowState.COMPLETED, FlowState.CANCELLED, FlowState.DISCARDED)


class FlowIntent(StrEnum):
    """People's intent for a flow."""

    RUN = "run"
    PAUSE = "pause"  # start no attempt until the flow is resumed
    DRAIN = "drain"  # start no attempt any more, let present attempts end, then cancel the open members


class GroupGrowth(StrEnum):
    """Source for members in a growing group."""

    GRAFT = "graft"  # a member attaches a sub-workflow
    TASKS = "tasks"  # every task in a crawl gets a member


class Ready(StrEnum):
    """Time for a crawl to count as completed for its dependents."""

    ENDED = "ended"  # the run has ended
    ARCHIVED = "archived"  # the archive with the run's files is ready, too


class MemberKind(StrEnum):
    CRAWL = "crawl"
    STEP = "step"
    APPROVAL = "approval"


class EndKind(StrEnum):
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SNOOZED = "snoozed"  # the function asked for another attempt after a pause


class FlowFailure(Message):
    """A failed member."""

    path: str
    state: MemberState
    reason: str | None = Field(default=None, description="reason of the end, at most 300 characters")


class FlowEnd(Message):
    """A flow's end, with the flow's state at the time."""

    end: int = Field(description="number of the end; a retried flow has several ends")
    flow_id: str = Field(description="id by the author")
    flow_uid: str = Field(description="a UUID, which unlike the id is never used again")
    name: str | None = None
    family: str | None = None
    state: FlowState = Field(description="`completed`, `cancelled` or `discarded`")
    total: int = Field(description="number of members")
    counts: dict[MemberState, int] = Field(description="members by state; states without members are absent")
    started_at: datetime | None = Field(
        default=None, description="first start of a member; none: no member has started"
    )
    elapsed_seconds: float | None = Field(default=None, description="time from the first start to the end")
    failures: tuple[FlowFailure, ...] = Field(
        description=f"the first {MOST_FAILURES} members that are discarded or cancelled, discarded members first"
    )
    at: datetime = Field(description="time of the end")


class FlowNoticeKind(StrEnum):
    FLOW_ENDED = "flow_ended"


class FlowNotice(FlowEnd):
    """Notice about a flow's end, for people."""

    notice_id: str = Field(description="a UUID, the same on every try, by which receivers drop repeats")
    kind: FlowNoticeKind = FlowNoticeKind.FLOW_ENDED
    final: bool = Field(default=True, description="true, because no further notice about the end follows")

    @property
    def topic(self) -> str:
        """Subject and kind, by which receivers choose notices."""
        return "flow.ended"


class FlowEvent(FlowEnd):
    """Event about a flow's end, for programs."""

    event_id: str = Field(description="a UUID, the same on every try, by which receivers drop repeats")
    kind: FlowNoticeKind = FlowNoticeKind.FLOW_ENDED


class SuperviseFlow(Message):
    """Input for a flow's workflow."""

    flow_uid: str
    flow_id: str
    is_cancelled: bool = Field(default=False, description="a pending cancel by Temporal's tools")


class FlowSupervised(Message):
    """Result for a flow's workflow: the flow's end."""

    flow_uid: str
    flow_id: str
    state: FlowState
