"""A run's limit clock."""

from datetime import datetime

from pydantic import Field

from crawler_lifecycle.contract.base import Message


class Clock(Message):
    """State of the limit clock. The clock stands still while all remaining jobs are suspended."""

    held_seconds: float = Field(default=0, description="how long they stood still before")
    held_since: datetime | None = Field(default=None, description="none: they count")
    changes: int = Field(default=0, description="how often they were held or went on")

    @property
    def is_held(self) -> bool:
        return self.held_since is not None
