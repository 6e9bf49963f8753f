"""Models of the API's request bodies and answers about flows."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field, JsonValue

from crawler_lifecycle.contract.base import Message, Request
from crawler_lifecycle.contract.flows.answers import FlowSummary, MemberRecord
from crawler_lifecycle.contract.flows.definition import FlowDefinition, Fragment
from crawler_lifecycle.contract.flows.item_requests import LONGEST_ARGUMENT, MOST_IN_REQUEST
from crawler_lifecycle.contract.flows.limits import LONGEST_NAME, MOST_MEMBERS
from crawler_lifecycle.contract.flows.names import Label, Path
from crawler_lifecycle.contract.flows.records import FlowStatus
from crawler_lifecycle.contract.flows.requests import ArgumentNames, Downstream, StopWay
from crawler_lifecycle.contract.managers.records import ItemAttempt, ItemRecord, ManagerStatus, OutputLine
from crawler_lifecycle.control.flows.pictures import PictureFormat
from crawler_lifecycle.ports import AttemptRecord, FlowLine

Jobs = Annotated[list[Path], Field(max_length=MOST_MEMBERS)]
ItemNumber = Annotated[int, Field(ge=1, le=1 << 31)]
Reason = Annotated[str, Field(max_length=1024)]


class ActorBody(Request):
    actor: Annotated[str, Field(max_length=256)] | None = Field(
        default=None, description="person or program that asks, for the record, where the token's name stands beside it"
    )


class FlowBody(FlowDefinition):
    """A flow's definition: crawls, approvals, and steps by the names of their functions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)  # `definitions` reads the parts strictly


class AppendBody(ActorBody):
    """Members to add to an open flow."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)
    key: Label = Field(description="chosen by the client: a second request with the same key adds nothing")
    group: Annotated[str, Field(max_length=LONGEST_NAME * 20)] = Field(
        default="", description="path of the sub-workflow that receives the members; empty: the flow's top level"
    )
    fragment: Fragment = Field(description="groups and members, with paths relative to `group`")


class CancelBody(ActorBody):
    jobs: Jobs | None = Field(default=None, description="paths; a sub-workflow's path means all its jobs; default: all")
    terminate: bool = Field(default=True, description="ask jobs under way to end")
    reason: Reason | None = None


class RetryBody(ActorBody):
    jobs: Jobs | None = Field(default=None, description="paths; default: all cancelled, discarded and retryable jobs")
    completed: bool = Field(default=False, description="retry completed jobs, too")
    downstream: Downstream = Field(
        default=Downstream.CANCELLED, strict=False, description="`all`: retry all jobs after these jobs, too"
    )
    arguments: dict[str, JsonValue] | None = Field(
        default=None, description="arguments in place of the named jobs' previous arguments"
    )
    removed_arguments: ArgumentNames = Field(
        default=(), description="names of arguments that the named jobs no longer have"
    )


class ApproveBody(ActorBody):
    job: Path = Field(description="path of the approval")
    approved: bool = Field(default=True, description="false: reject")
    note: Reason | None = None


class HoldBody(ActorBody):
    hold: Annotated[str, Field(pattern=r"^(run|pause|drain)$")] = Field(
        description="`pause`: start no further job; `drain`: let jobs under way end, and cancel the rest; `run`: resume"
    )


class StopFlowBody(ActorBody):
    way: StopWay = Field(
        default=StopWay.TERMINATE,
        strict=False,
        description="`terminate`: cancel all jobs, and end those under way; `drain`: start nothing new; `leave`: "
        "cancel all jobs, and leave those under way alone",
    )
    force: bool = Field(default=False, description="end crawls under way without their grace period")
    reason: Reason | None = None


class StartManagerBody(ActorBody):
    """A crawl manager of the catalogue. Paths and classes are not accepted here."""

    manager: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)] = Field(description="name in the catalogue")
    family: Label | None = Field(
        default=None,
        description="family of the manager's flow, whose id is `family/manager`: a second start in the family joins "
        "the first; default: a new family, and then a repeated request starts a second manager",
    )
    arguments: Annotated[list[Annotated[str, Field(max_length=LONGEST_ARGUMENT)]], Field(max_length=1000)] = Field(
        default_factory=list, description="command line after the catalogue's arguments"
    )


class ItemsBody(ActorBody):
    manager: Path | None = Field(default=None, description="path of the manager; default: the flow's only manager")


class AddItemsBody(ItemsBody):
    key: Label = Field(description="chosen by the client: a second request with the same key adds nothing")
    items: Annotated[list[dict[str, JsonValue]], Field(min_length=1, max_length=MOST_IN_REQUEST)] = Field(
        description="parameters as a generator yields them: `spider`, `tags`, `job_settings`, `units`, and arguments"
    )


class RetryItemsBody(ItemsBody):
    numbers: Annotated[list[ItemNumber], Field(max_length=MOST_IN_REQUEST)] | None = Field(
        default=None, description="default: all failed items"
    )
    arguments: dict[str, JsonValue] | None = Field(
        default=None, description="arguments in place of the previous arguments"
    )
    spider: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)] | None = Field(
        default=None, description="crawler in place of the previous crawler"
    )


class CancelItemsBody(ItemsBody):
    numbers: Annotated[list[ItemNumber], Field(max_length=MOST_IN_REQUEST)] | None = Field(
        default=None, description="default: all items that wait; a refused item is cancelled only by its number"
    )


class ItemPage(Message):
    items: list[ItemRecord]
    next: int | None = Field(description="`after` of the next page; none: this is the last page")


class ItemAttempts(Message):
    attempts: list[ItemAttempt] = Field(description="the item's attempts over all generations, the first one first")


class OutputLines(Message):
    lines: list[OutputLine] = Field(description="the last lines, the oldest one first")


class ManagerList(Message):
    managers: list[ManagerStatus] = Field(description="the flow's crawl managers, with their numbers")


class FlowPage(Message):
    flows: list[FlowSummary]
    next: str | None = Field(description="cursor of the next page; none: this is the last page")


class FlowView(Message):
    """A flow with its sub-workflows and its timeline, without its jobs."""

    flow: FlowSummary
    status: FlowStatus
    timeline: list[FlowLine]
    managers: list[ManagerStatus] = Field(default=[], description="the flow's crawl managers, with their numbers")
    temporal_url: str | None = Field(
        default=None, description="address of the flow's workflow in Temporal's Web UI; none: the UI is not configured"
    )


class MemberPage(Message):
    jobs: list[MemberRecord]
    total: int = Field(description="number of the jobs that fit the filters")
    next: int | None = Field(description="`first` of the next page; none: this is the last page")


class Results(Message):
    results: dict[str, Any] = Field(description="recorded results by path, nested for sub-workflows")
    context: dict[str, Any] | None = Field(description="context values of the flow; none: no context was given")


class AttemptList(Message):
    attempts: list[AttemptRecord] = Field(description="the member's attempts over all generations, the first one first")


class Picture(Message):
    format: PictureFormat
    graph: str
