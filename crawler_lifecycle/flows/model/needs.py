"""Needs: dependencies for members and groups."""

from typing import Annotated

from pydantic import Field

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.base.names import Path
from crawler_lifecycle.model.requests import MOST_TASKS_EVER

Task = Annotated[int, Field(ge=0, lt=MOST_TASKS_EVER)]
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


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
