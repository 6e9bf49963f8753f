"""Inputs and results for steps in several stages, and a run's limit clock."""

from datetime import datetime

from pydantic import Field

from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.states import Trigger


class Clock(Message):
    """The limit clock's state. The clock stands still while all remaining jobs are suspended."""

    held_seconds: float = Field(default=0, description="total of earlier standstills")
    held_since: datetime | None = Field(default=None, description="begin of the standstill; none: the clock counts")
    changes: int = Field(default=0, description="number of standstills and continuations")

    @property
    def is_held(self) -> bool:
        return self.held_since is not None


class RunRef(Message):
    """Run and its supervisor's epoch. Every write compares the epoch."""

    run_id: int
    run_uid: str
    epoch: int


class RunInput(Message):
    """Input for an activity without further parameters."""

    run: RunRef


class RunPlan(Message):
    """Plan for a run: its request with the crawler's defaults filled in."""

    run: RunRef
    crawler: str
    trigger: Trigger
    tasks: int
    end: int = Field(default=1, description="number of the run's next end")
    begun_at: datetime
    start_limit_seconds: int | None = None
    max_duration_seconds: int | None = None
    grace_seconds: int = 30
    clock: Clock = Clock()
    search_attributes: bool = Field(default=False, description="the server knows ours; an unknown attribute is fatal")


class Counted(Message):
    count: int
