"""Records for people: a flow's status, its members, lists, explanations, and the effect of a request."""

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from pydantic import Field, JsonValue

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.base.names import last_name
from crawler_lifecycle.flows.model.manager_records import ItemSums, ManagerStatus
from crawler_lifecycle.model.crawl_results import Stats
from crawler_lifecycle.model.flow_states import FlowIntent, FlowState, MemberState
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


class LeftOut(Message):
    """A named job or sub-workflow without a change by the request."""

    job: str = Field(description="path, as in the request")
    reason: str = Field(description="why the request changes nothing here, and what helps")


class FlowAnswer(Message):
    """A request's effect. The effect is recorded in any case; without Temporal, the flow continues later."""

    flow_id: str
    flow_uid: str
    count: int = Field(default=0, description="changed members, as the request counts members")
    created: bool = Field(default=False, description="whether the request made the flow")
    changed: bool = Field(default=True, description="whether the request had an effect; a repetition has none")
    left_out: tuple[LeftOut, ...] = Field(
        default=(), description="named jobs that a cancel or retry does not change; empty: all named jobs are changed"
    )
    reopened: bool = Field(
        default=False,
        description="whether an ended crawl manager continues: its generator, its unstarted items and its crawls",
    )
    nudged: bool = Field(default=True, description="whether the flow's supervisor knows about the request already")
    problem: str | None = Field(default=None, description="why the supervisor learns about the request later")


class FlowSummary(Message):
    """A flow in a list."""

    uid: str
    id: str
    name: str | None = None
    family: str | None = None
    state: FlowState
    intent: FlowIntent
    total: int
    counts: dict[MemberState, int] = Field(description="members by state; states without members are absent")
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None = None
    stopped_at: datetime | None = None
    created_by: str | None = None
    waits_for: tuple[str, ...] = Field(
        default=(), description="what an open flow waits for: `approval:JOB` for a person, `host:MODULE` for a host"
    )
    items: ItemSums | None = Field(default=None, description="sums over the items of crawl managers; none: no manager")


class MemberRecord(Message):
    """A flow's member. Authors call the member a job."""

    flow_id: str
    path: str
    number: int
    kind: str = Field(description="`crawl`, `step`, `approval` or `manager`")
    title: str = Field(description="crawler, or name of the function")
    state: MemberState
    cause: str | None = Field(default=None, description="word for the present wait")
    reason: str | None = Field(default=None, description="why the member ended, or why its last attempt failed")
    problem: str | None = Field(default=None, description="sentence about a crawl that was refused")
    outcome: str | None = Field(default=None, description="word for the end of the last attempt")
    deps: tuple[str, ...] = Field(default=(), description="paths of the direct dependencies")
    args: Any = Field(default=None, description="arguments of the next or last attempt")
    labels: list[str] = Field(default_factory=list, description="labels for permits, for a crawl")
    queue: str | None = None
    priority: int = 0
    max_attempts: int = 1
    generation: int = 1
    attempt: int = Field(default=0, description="number of the last attempt over all generations; 0: none yet")
    since: datetime | None = Field(default=None, description="time when the state last changed")
    due: datetime | None = Field(default=None, description="end of the present pause or wait")
    started_at: datetime | None = Field(default=None, description="first start of all")
    began_at: datetime | None = Field(default=None, description="first start since the last retry")
    ended_at: datetime | None = None
    run_id: int | None = Field(default=None, description="RunID of the last attempt, for a crawl")

    @property
    def name(self) -> str:
        return last_name(self.path)

    @property
    def meta(self) -> dict[str, Any]:
        """The member's place in its workflow, under the names for users from Oban."""
        return {"name": self.name, "workflow_id": self.flow_id, "path": self.path}


class GroupRecord(Message):
    """A sub-workflow, collection or graft with dependencies."""

    path: str
    deps: tuple[str, ...] = Field(description="paths that all members wait for; of a graft, its grafter")


class FlowChange(Message):
    """A flow's present state, for followers."""

    status: FlowStatus
    is_over: bool = Field(description="whether the flow has ended: no part of the flow runs any more")
    jobs: tuple[MemberRecord, ...] = Field(description="members that are new or changed; in the first message, all")
    removed: tuple[str, ...] = Field(default=(), description="paths of members that a repeated grafter has replaced")
    groups: tuple[GroupRecord, ...] | None = Field(
        default=None, description="all groups with dependencies, if a dependency is new or changed"
    )
    managers: tuple[ManagerStatus, ...] = Field(default=(), description="the flow's crawl managers, with their numbers")
