"""Since when do a run's limits of time not count?"""

from datetime import datetime

from pydantic import Field

from crawler_lifecycle.contract.base import Message


class Clock(Message):
    """A run's limits stand still while all that is left of it in the cluster is suspended."""

    held_seconds: float = Field(default=0, description="how long they stood still before")
    held_since: datetime | None = Field(default=None, description="none: they count")
    changes: int = Field(default=0, description="how often they were held or went on")

    @property
    def is_held(self) -> bool:
        return self.held_since is not None
