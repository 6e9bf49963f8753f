"""Models for the runs' summed use, for reports about costs."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from crawler_lifecycle.base.base import Message


class UsageBy(StrEnum):
    """Property to group runs by."""

    CRAWLER = "crawler"
    TENANT = "tenant"  # NAME in the label `tenant:NAME`
    FLOW = "flow"
    LABEL = "label"


class GroupUse(Message):
    """Sums over a group's runs. A run without a value counts as 0."""

    name: str | None = Field(description="crawler, tenant, flow or label; null: the runs without one")
    runs: int = Field(description="number of the runs")
    task_seconds: float = Field(description="time of all attempts from their starts to their ends")
    cpu_seconds: float = Field(description="this time multiplied by the requested CPUs")
    memory_gib_seconds: float = Field(description="this time multiplied by the requested GiB of memory")
    archived_bytes: int = Field(description="size of the archives")


class Usage(Message):
    """Use by the runs with an end in a period."""

    by: UsageBy
    since: datetime
    until: datetime
    groups: list[GroupUse] = Field(
        description="the 1,000 groups with most task seconds; a run with several labels counts for each label"
    )
    total: GroupUse = Field(description="sums over all runs of the period")
