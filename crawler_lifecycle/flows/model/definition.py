"""Models for a flow's graph as its author wrote the graph, with absolute paths, needs, and the members' work."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.base.limits import A_YEAR, LONGEST_FUNCTION, LONGEST_NAME
from crawler_lifecycle.base.names import Label, Path
from crawler_lifecycle.model.flow_retrying import RetryPolicy
from crawler_lifecycle.model.flow_states import GroupGrowth, Ready
from crawler_lifecycle.model.requests import MOST_TASKS_EVER, Moment, RunParameters

Task = Annotated[int, Field(ge=0, lt=MOST_TASKS_EVER)]
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
Timeout = Annotated[float, Field(gt=0, le=A_YEAR, allow_inf_nan=False)]
A_CRAWL_AND_A_STEP = [
    {"path": "shop", "work": {"kind": "crawl", "request": {"crawler": "bookshop"}}},
    {"path": "load", "work": {"kind": "step", "function": "my_project.flows:load"}, "needs": [{"on": ["shop"]}]},
]


class Need(Message):
    """A dependency on a member, on a whole group, on a crawl's single task, or a quorum over several targets.

    A need without `share` and `count` is satisfied when its only target is completed. A quorum is satisfied when enough
    members among its targets are completed; a group counts with all its members.
    """

    on: tuple[Path, ...] = Field(min_length=1, description="paths; more than one only in a quorum")
    task: Task | None = Field(default=None, description="task in the crawl, in place of the whole crawl")
    share: Share | None = Field(default=None, description="quorum: share of the members that is enough")
    count: int | None = Field(default=None, ge=1, description="quorum: number of members that is enough")
    wait: bool = Field(default=False, description="quorum: wait until all members are final, then decide")

    @property
    def is_quorum(self) -> bool:
        return self.share is not None or self.count is not None


class CallForm(StrEnum):
    """Way to call a step's function."""

    KEYWORDS = "keywords"  # with the arguments as keywords
    CONTEXT = "context"  # with the context
    ITEM = "item"  # with the item and the context
    JOB = "job"  # the method `process` on a worker class, with the job
    PARAMETERS = "parameters"  # results and context values as keywords, by the parameters' names
    MANAGER = "manager"  # a class for a crawl manager, with the command line: a list of texts


class CrawlWork(Message):
    """A crawler's run."""

    kind: Literal["crawl"] = "crawl"
    request: RunParameters
    ready: Ready = Ready.ENDED
    label: Label | None = Field(default=None, description="label for permits, such as `site:example.com`")

    @property
    def title(self) -> str:
        """Name for pictures."""
        return self.request.crawler

    @property
    def labels(self) -> list[str]:
        """All labels for permits."""
        return list(dict.fromkeys([*self.request.labels, *([self.label] if self.label else [])]))


class StepWork(Message):
    """A call to a function in the author's code."""

    kind: Literal["step"] = "step"
    function: str = Field(max_length=LONGEST_FUNCTION, pattern=r"^[\w.-]+:[\w.]+$", description="`module:qualname`")
    form: CallForm = CallForm.CONTEXT
    arguments: JsonValue = Field(default=None, description="encoded keywords, item or arguments for a job")
    queue: Label = "default"
    timeout_seconds: Timeout | None = None
    isolate: bool = Field(default=False, description="run the function in a process, which a stop can end")
    tags: tuple[Label, ...] = Field(default=(), max_length=20, description="words for the function")

    @property
    def title(self) -> str:
        """Name for pictures: the function's or class's name."""
        return self.function.rpartition(":")[2]

    @property
    def is_manager(self) -> bool:
        """Whether the function is a crawl manager's class."""
        return self.form is CallForm.MANAGER


class ApprovalWork(Message):
    """A wait for a person's decision."""

    kind: Literal["approval"] = "approval"
    note: str | None = Field(default=None, max_length=1024, description="question for the person")
    timeout_seconds: Timeout | None = Field(default=None, description="longest wait; then the member is discarded")

    @property
    def title(self) -> str:
        """Name for pictures."""
        return "approval"


class ManagerWork(Message):
    """A crawl manager by its name in the catalogue. A stored flow has the manager's class, as a step."""

    kind: Literal["manager"] = "manager"
    manager: str = Field(min_length=1, max_length=LONGEST_NAME, description="name in the catalogue")
    arguments: tuple[str, ...] = Field(
        default=(), max_length=1000, description="command line after the catalogue's arguments"
    )

    @property
    def title(self) -> str:
        """Name for pictures."""
        return self.manager


Work = Annotated[CrawlWork | StepWork | ApprovalWork | ManagerWork, Field(discriminator="kind")]


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
