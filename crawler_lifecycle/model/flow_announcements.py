"""Models for the outside about a flow's end: the notice for front ends, and the event for pipelines.

A notice or event has the same id on every try, so receivers can drop repeats.
"""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.model.flow_states import FlowState, MemberState

MOST_FAILURES = 10  # failed members in an announcement


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
