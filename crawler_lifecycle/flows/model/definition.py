"""Definitions: a flow's graph as its author wrote the graph, with absolute paths."""

from pydantic import Field, JsonValue

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.base.limits import A_YEAR
from crawler_lifecycle.base.names import Label, Path
from crawler_lifecycle.flows.model.needs import Need
from crawler_lifecycle.flows.model.work import StepWork, Work
from crawler_lifecycle.model.flow_retrying import RetryPolicy
from crawler_lifecycle.model.flow_states import GroupGrowth
from crawler_lifecycle.model.requests import MOST_TASKS_EVER, Moment


class MemberDefinition(Message):
    """A member: a crawl, a step or an approval, with its needs. The flags have the groups' defaults."""

    path: Path
    work: Work
    needs: tuple[Need, ...] = ()
    ignore_cancelled: bool = Field(default=False, description="a cancelled dependency counts as completed")
    ignore_discarded: bool = Field(default=False, description="a discarded dependency counts as completed")
    retry: RetryPolicy = RetryPolicy()
    priority: int = Field(
        default=0,
        ge=-1000,
        le=1000,
        description="higher numbers start first; a crawl's run has this priority, too, up to 100",
    )
    start_at: Moment | None = Field(default=None, description="earliest start")
    delay_seconds: float | None = Field(default=None, ge=0, le=A_YEAR, description="earliest start, after the push")


class GroupDefinition(Message):
    """A group: the members in a sub-workflow, a collection or a graft."""

    path: Path
    needs: tuple[Need, ...] = Field(default=(), description="needs for all members without needs inside the group")
    ignore_cancelled: bool = Field(default=False, description="default for members that join later")
    ignore_discarded: bool = Field(default=False, description="default for members that join later")
    context: dict[str, JsonValue] = Field(default={}, description="encoded values over the parent's context")
    max_parallel: int | None = Field(default=None, ge=1, le=MOST_TASKS_EVER)
    growth: GroupGrowth | None = None
    grower: Path | None = Field(default=None, description="grafter, or crawl with the tasks")
    template: StepWork | None = Field(default=None, description="step for every task of the crawl")
    template_retry: RetryPolicy = RetryPolicy()


A_CRAWL_AND_A_STEP = [
    {"path": "shop", "work": {"kind": "crawl", "request": {"crawler": "bookshop"}}},
    {"path": "load", "work": {"kind": "step", "function": "my_project.flows:load"}, "needs": [{"on": ["shop"]}]},
]


class Fragment(Message):
    """Members and groups in their order. Paths are relative to the receiving group."""

    groups: tuple[GroupDefinition, ...] = Field(default=(), description="sub-workflows, each before its members")
    members: tuple[MemberDefinition, ...] = Field(default=(), description="jobs", examples=[A_CRAWL_AND_A_STEP])


class FlowDefinition(Fragment):
    """A whole graph."""

    id: Label
    name: Label | None = None
    family: Label | None = None
    ignore_cancelled: bool = False
    ignore_discarded: bool = False
    context: dict[str, JsonValue] | None = Field(default=None, description="encoded values for all members")
    max_parallel: int | None = Field(default=None, ge=1, le=MOST_TASKS_EVER)

    @property
    def manager(self) -> StepWork | None:
        """The crawl manager, if the only job is a manager."""
        works = [member.work for member in self.members]
        only = works[0] if len(works) == 1 else None
        return only if isinstance(only, StepWork) and only.is_manager else None
