"""Models of the API's request bodies and answers about flows."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.base.limits import LONGEST_NAME
from crawler_lifecycle.base.names import Label
from crawler_lifecycle.flows.commands.pictures import PictureFormat
from crawler_lifecycle.flows.model.answers import FlowSummary, MemberRecord
from crawler_lifecycle.flows.model.definition import FlowDefinition, Fragment
from crawler_lifecycle.flows.model.manager_records import ManagerStatus
from crawler_lifecycle.flows.model.records import FlowStatus
from crawler_lifecycle.flows.model.requests import FlowRequest
from crawler_lifecycle.flows.ports.records import AttemptRecord, FlowLine


class FlowBody(FlowDefinition):
    """A flow's definition: crawls, approvals, and steps by the names of their functions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)  # `definitions` reads the parts strictly


class AppendBody(FlowRequest):
    """Members to add to an open flow."""

    model_config = ConfigDict(strict=False)
    key: Label = Field(description="chosen by the client: a second request with the same key adds nothing")
    group: Annotated[str, Field(max_length=LONGEST_NAME * 20)] = Field(
        default="", description="path of the sub-workflow that receives the members; empty: the flow's top level"
    )
    fragment: Fragment = Field(description="groups and members, with paths relative to `group`")


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
