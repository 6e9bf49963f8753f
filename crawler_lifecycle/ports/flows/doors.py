"""Port for requests at flows' doors: people, programs and grafters change flows by the port."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from crawler_lifecycle.contract.flows.answers import LeftOut
from crawler_lifecycle.contract.flows.requests import (
    AppendMembers,
    ApproveMember,
    CancelMembers,
    GraftMembers,
    HoldFlow,
    PushFlow,
    RetryMembers,
)


@dataclass(frozen=True, slots=True)
class DoorAnswer:
    """Answer to a request. `count`: changed members, as the request counts them."""

    flow_uid: str
    flow_id: str
    count: int = 0
    created: bool = False  # whether the request made the flow
    changed: bool = True  # False: the request was made before, so no supervisor has to be notified
    left_out: tuple[LeftOut, ...] = ()  # named members without a change
    reopened: bool = False  # whether a crawl manager that had ended continues


class FlowDoors(Protocol):
    """Requests of people, programs and grafters. Each is one transaction. NotFound without such a flow.

    `flow` is the flow's id, and for a graft its uid.
    """

    def push(self, request: PushFlow) -> DoorAnswer: ...

    def append(self, flow: str, request: AppendMembers) -> DoorAnswer: ...

    def graft(self, flow_uid: str, request: GraftMembers) -> DoorAnswer: ...

    def cancel(self, flow: str, request: CancelMembers) -> DoorAnswer: ...

    def retry(self, flow: str, request: RetryMembers) -> DoorAnswer: ...

    def approve(self, flow: str, request: ApproveMember) -> DoorAnswer: ...

    def hold(self, flow: str, request: HoldFlow) -> DoorAnswer: ...

    def prune(self, flow_uids: Collection[str], ended_before: datetime | None = None) -> int:
        """Delete ended flows with all their rows; runs stay. Return how many were deleted.

        Open flows stay, and flows that have not ended before the moment.
        """
