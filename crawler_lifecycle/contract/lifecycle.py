"""What does the lifecycle workflow take, and what does it tell when asked?"""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.requests import RunRequest
from crawler_lifecycle.contract.steps import RunPlan


class Stage(StrEnum):
    INITIATION = "initiation"
    DEPLOYMENT = "deployment"
    RECONCILIATION = "reconciliation"
    COMPLETION = "completion"


class Carried(Message):
    """What an execution hands to the one that continues it, so that none grows without end."""

    plan: RunPlan
    anchor: datetime | None = Field(default=None, description="start of reconciliation; none: still deploying")
    look_number: int = 1
    looks: int = 0
    nudged: bool = False


class LifecycleInput(RunRequest):
    """A RunRequest; `carried` is the workflow's own."""

    carried: Carried | None = None


class LifecycleState(Message):
    """The answer to the workflow's query `state`."""

    stage: Stage
    run_id: int | None = None
    run_uid: str | None = None
    waiting_for: str
    next_look_at: datetime | None = None
    looks: int = 0
    alive: int | None = None
