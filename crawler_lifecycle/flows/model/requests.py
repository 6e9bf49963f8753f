"""Requests for flows, crawl managers and their items by people and programs.

Most are HTTP bodies, where `paths` has the name `jobs`; `verb` ends the address. `manager`: the member's path, for a
flow with several.
"""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field, JsonValue
from pydantic.json_schema import SkipJsonSchema

from crawler_lifecycle.base.base import Message, Request
from crawler_lifecycle.base.limits import LONGEST_NAME, MOST_MEMBERS
from crawler_lifecycle.base.names import Label, Path
from crawler_lifecycle.base.requesters import LONGEST_REQUESTER
from crawler_lifecycle.flows.model.definition import FlowDefinition, Fragment
from crawler_lifecycle.model.manager_items import Item, ItemState

LARGEST_NUMBER = 1 << 31
Number = Annotated[int, Field(ge=1, lt=LARGEST_NUMBER)]  # an item's number, in a column with 32 bits
Paths = Annotated[tuple[Path, ...], Field(max_length=MOST_MEMBERS, strict=False)]
Actor = Annotated[str, Field(max_length=LONGEST_REQUESTER)]
Note = Annotated[str, Field(max_length=1024)]
ArgumentNames = Annotated[
    tuple[Annotated[str, Field(max_length=LONGEST_NAME)], ...], Field(max_length=100, strict=False)
]
LONGEST_ARGUMENT = 65_536
MOST_IN_REQUEST = 10_000
Numbers = Annotated[
    tuple[Annotated[int, Field(ge=1, le=1 << 31)], ...], Field(max_length=MOST_IN_REQUEST, strict=False)
]


class ItemFilter(Message):
    """Choice by all given values. An empty value chooses every item."""

    manager: str | None = None  # path; None: the flow's only manager
    states: tuple[ItemState, ...] = ()
    outcome: str | None = None
    tag: str | None = None  # a tag or label in the item's last request
    numbers: tuple[Number, ...] | None = None


ALL_ITEMS = ItemFilter()


class FlowRequest(Request):
    """Fields in all requests. The API sets `door`, and puts the token's name beside the actor's."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    actor: Actor | None = Field(
        default=None, description="person or program that asks, for the record", examples=["ann"]
    )
    door: SkipJsonSchema[Annotated[str, Field(max_length=64)]] = "python"


class PushFlow(FlowRequest):
    """Store a flow, or update the flow with its id."""

    definition: FlowDefinition
    own_host: Annotated[str, Field(max_length=LONGEST_NAME)] = Field(
        default="", description="name of the only hosts for a new flow's steps; empty: all hosts of their modules"
    )


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
    """Cancel open jobs."""

    verb: ClassVar[str] = "cancel"

    paths: Paths | None = Field(
        default=None,
        alias="jobs",
        description="paths; a sub-workflow's path means all its jobs; default: all jobs, and no job may join later",
        examples=[["sites/de"]],
    )
    terminate: bool = Field(default=True, description="ask jobs under way to end")
    reason: Note | None = Field(default=None, description="reason, for the record", examples=["wrong site"])


class Downstream(StrEnum):
    """Reach for a retry beyond the named members."""

    CANCELLED = "cancelled"  # dependents, cancelled only for the retried members' sake, are open again
    ALL = "all"  # all descendants execute again, the completed members included


class RetryMembers(FlowRequest):
    """Give cancelled, discarded and retryable jobs another attempt. All further results are kept."""

    verb: ClassVar[str] = "retry"

    paths: Paths | None = Field(
        default=None,
        alias="jobs",
        description="paths; default: all cancelled, discarded and retryable jobs",
        examples=[["sites/de"]],
    )
    completed: bool = Field(default=False, description="retry completed jobs, too")
    downstream: Downstream = Field(
        default=Downstream.CANCELLED, strict=False, description="`all`: retry all jobs after these jobs, too"
    )
    arguments: dict[str, JsonValue] | None = Field(
        default=None,
        description="arguments in place of the named jobs' previous arguments",
        examples=[{"depth": "3"}],
    )
    removed_arguments: ArgumentNames = Field(
        default=(), description="names of arguments that the named jobs no longer have"
    )

    @property
    def changes_arguments(self) -> bool:
        return self.arguments is not None or bool(self.removed_arguments)


class ApproveMember(FlowRequest):
    """Decide about an approval, also before the flow reaches the approval."""

    verb: ClassVar[str] = "approve"

    path: Path = Field(alias="job", description="path of the approval", examples=["release"])
    approved: bool = Field(default=True, description="false: reject")
    note: Note | None = Field(default=None, description="for the record", examples=["looks good"])


class HoldFlow(FlowRequest):
    """Pause or drain a flow, or let the flow continue."""

    verb: ClassVar[str] = "hold"

    hold: Annotated[str, Field(pattern=r"^(run|pause|drain)$")] = Field(
        description="`pause`: start no further job; `drain`: let jobs under way end, and cancel the rest; "
        "`run`: resume",
        examples=["pause"],
    )


# Requests for a stored flow; a door answers with the changed members. A `StopFlow` becomes a `HoldFlow` for a drain,
# and otherwise a `CancelMembers`.
ChangeFlow = CancelMembers | RetryMembers | ApproveMember | HoldFlow


class StopWay(StrEnum):
    """Way to stop a flow."""

    TERMINATE = "terminate"  # cancel all members, and ask the attempts under way to end
    DRAIN = "drain"  # start no further attempts, and let the present attempts end on their own
    LEAVE = "leave"  # cancel all members; crawls and steps under way continue, and their ends are only noted


class StopFlow(FlowRequest):
    """Stop a flow. The flow ends with its last attempt, so the end is the proof for the stop."""

    verb: ClassVar[str] = "stop"

    way: StopWay = Field(
        default=StopWay.TERMINATE,
        strict=False,
        description="`terminate`: cancel all jobs, and end those under way; `drain`: start nothing new; `leave`: "
        "cancel all jobs, and leave those under way alone",
    )
    force: bool = Field(default=False, description="end crawls under way without their grace period")
    reason: Note | None = Field(default=None, description="reason, for the record", examples=["wrong site"])


class StartManager(FlowRequest):
    """Start a crawl manager by its catalogue name. The request has no paths and no classes."""

    manager: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)] = Field(
        description="name in the catalogue", examples=["shops"]
    )
    family: Label | None = Field(
        default=None,
        description="family of the manager's flow, whose id is `family/manager`: a second start in the family joins "
        "the first; default: a new family, and then a repeated request starts a second manager",
        examples=["november"],
    )
    arguments: Annotated[
        tuple[Annotated[str, Field(max_length=LONGEST_ARGUMENT)], ...], Field(max_length=1000, strict=False)
    ] = Field(
        default=(),
        description="command line after the catalogue's arguments",
        examples=[["--max-running-jobs", "8"]],
    )


class ItemsRequest(FlowRequest):
    """Fields in all requests for items."""

    manager: Path | None = Field(default=None, description="path of the manager; default: the flow's only manager")


class AddItems(ItemsRequest):
    """Add items to an open manager. A second request with the same key is ignored."""

    key: Label
    items: Annotated[tuple[Item, ...], Field(min_length=1, max_length=MOST_IN_REQUEST)]


class RetryItems(ItemsRequest):
    """Give failed, cancelled and refused items another attempt. An ended manager continues."""

    verb: ClassVar[str] = "retry-items"

    numbers: Numbers | None = Field(default=None, description="default: all failed items", examples=[[17, 30]])
    arguments: dict[str, JsonValue] | None = Field(
        default=None, description="arguments in place of the previous arguments"
    )
    spider: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)] | None = Field(
        default=None, description="crawler in place of the previous crawler"
    )

    @property
    def has_corrections(self) -> bool:
        return bool(self.arguments) or self.spider is not None


class CancelItems(ItemsRequest):
    """Cancel waiting items, and items cancelled by the manager's close. Crawls under way continue."""

    verb: ClassVar[str] = "cancel-items"

    numbers: Numbers | None = Field(
        default=None,
        description="default: all items that wait; a refused item is cancelled only by its number",
        examples=[[17, 30]],
    )
