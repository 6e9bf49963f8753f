"""The limit clock of a run, which measures the run's time for its limits."""

from datetime import datetime

from pydantic import Field

from crawler_lifecycle.contract.base import Message


class Clock(Message):
    """State of the limit clock. The clock stands still while all remaining jobs are suspended."""

    held_seconds: float = Field(default=0, description="total of earlier standstills")
    held_since: datetime | None = Field(default=None, description="begin of the standstill; none: the clock counts")
    changes: int = Field(default=0, description="number of standstills and continuations")

    @property
    def is_held(self) -> bool:
        return self.held_since is not None
