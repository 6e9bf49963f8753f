"""Requests for flows by people and programs, at every door."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, JsonValue

from crawler_lifecycle.contract.base import Request
from crawler_lifecycle.contract.flows.definition import FlowDefinition, Fragment
from crawler_lifecycle.contract.flows.limits import LONGEST_NAME, MOST_MEMBERS
from crawler_lifecycle.contract.flows.names import Label, Path
from crawler_lifecycle.contract.requesters import LONGEST_REQUESTER

Paths = Annotated[tuple[Path, ...], Field(max_length=MOST_MEMBERS)]
Actor = Annotated[str, Field(max_length=LONGEST_REQUESTER)]
Note = Annotated[str, Field(max_length=1024)]

ArgumentNames = Annotated[tuple[Annotated[str, Field(max_length=LONGEST_NAME)], ...], Field(max_length=100)]


class FlowRequest(Request):
    """Fields in all requests."""

    actor: Actor | None = Field(default=None, description="person or program that makes the request")
    door: Annotated[str, Field(max_length=64)] = Field(default="python", description="door through which it came")


class PushFlow(FlowRequest):
    """Store a flow, or update the flow with its id."""

    definition: FlowDefinition


class AppendMembers(FlowRequest):
    """Add members to an executing flow. A second request with the same key is ignored."""

    key: Label
    group: Annotated[str, Field(max_length=LONGEST_NAME * 20)] = Field(
        default="", description="path for the group that receives the members; empty: the flow's top level"
    )
    fragment: Fragment


class GraftMembers(FlowRequest):
    """Attach a sub-workflow in a graft's place. Only the grafter's present attempt may do so."""

    grafter: Path
    generation: int = Field(ge=1)
    attempt: int = Field(ge=1)
    fragment: Fragment
    context: dict[str, JsonValue] = {}


class CancelMembers(FlowRequest):
    """Cancel open members. A group's path means all its members."""

    paths: Paths | None = Field(default=None, description="default: all members, and no member may join later")
    terminate: bool = Field(default=True, description="ask attempts that are under way to end")
    reason: Note | None = None


class Downstream(StrEnum):
    """Reach for a retry beyond the named members."""

    CANCELLED = "cancelled"  # dependents with no reason but the retried members stand again
    ALL = "all"  # all descendants execute again, the completed members included


class RetryMembers(FlowRequest):
    """Give cancelled, discarded and retryable members another attempt. All further results are kept."""

    paths: Paths | None = Field(default=None, description="default: all cancelled, discarded and retryable members")
    completed: bool = Field(default=False, description="retry completed members, too")
    downstream: Downstream = Downstream.CANCELLED
    arguments: dict[str, JsonValue] | None = Field(
        default=None, description="arguments in place of the previous arguments, for the named members"
    )
    removed_arguments: ArgumentNames = Field(
        default=(), description="names of arguments that the named members no longer have"
    )

    @property
    def changes_arguments(self) -> bool:
        return self.arguments is not None or bool(self.removed_arguments)


class ApproveMember(FlowRequest):
    """Decide about an approval, also before the flow reaches the approval."""

    path: Path
    approved: bool = True
    note: Note | None = None


class HoldFlow(FlowRequest):
    """Pause or drain a flow, or let the flow continue."""

    hold: Annotated[str, Field(pattern=r"^(run|pause|drain)$")]


class StopWay(StrEnum):
    """Way to stop a flow."""

    TERMINATE = "terminate"  # cancel all members, and ask the attempts under way to end
    DRAIN = "drain"  # start no further attempts, and let the present attempts end on their own
    LEAVE = "leave"  # cancel all members; crawls and steps under way continue, and their ends are only noted


class StopFlow(FlowRequest):
    """Stop a flow. The flow ends with its last attempt, so the end is the proof for the stop."""

    way: StopWay = Field(default=StopWay.TERMINATE, strict=False)
    force: bool = Field(default=False, description="make the crawls under way end without their grace period")
    reason: Note | None = None
