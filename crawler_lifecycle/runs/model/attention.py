"""`Attention` counts waits for people, hosts and room, for the top line on every view and for commands."""

from pydantic import Field

from crawler_lifecycle.base.base import Message


class FlowsInNeed(Message):
    """Flows with the same need."""

    total: int
    flows: list[str] = Field(description="ids of the flows, oldest first, at most ten")


class RequestsInNeed(Message):
    """Accepted requests for runs without a run."""

    total: int
    workflows: list[str] = Field(description="ids of the workflows, at most ten")


class Attention(Message):
    """Counted waits for people, hosts and room."""

    failed_runs: int = Field(description="runs created in the last 24 hours that failed, without stopped runs")
    with_failed_items: FlowsInNeed = Field(
        description="flows that ended in the last 24 hours with failed items of a manager, without cancelled flows"
    )
    saturated_runs: int = Field(description="runs that have waited for room in the cluster for five minutes or longer")
    awaiting_approval: FlowsInNeed = Field(description="flows with an approval that nobody has decided yet")
    without_host: FlowsInNeed = Field(description="flows with a step without a host")
    without_run: RequestsInNeed | None = Field(
        description="requests accepted more than a minute ago that no worker has made a run; null: Temporal does not "
        "answer"
    )
    open_findings: int = Field(description="open findings of audits")
    pauses: int = Field(description="paused scopes: the installation, crawlers and labels")
    audit_problem: str | None = Field(description="why no audit was complete lately; null: the last audit was in time")
