"""Items of a manager for people."""

from datetime import datetime

from pydantic import Field

from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.managers.items import ItemState, Origin, Override


class ItemRecord(Message):
    """An item with its last attempt."""

    number: int
    state: ItemState
    origin: Origin
    is_delayed: bool = Field(default=False, description="whether the manager's object holds the item back")
    due: datetime | None = Field(default=None, description="end of the pause before the next attempt")
    crawler: str | None = None
    override: Override
    generation: int
    attempt: int
    tries: int
    problem: str | None = Field(default=None, description="why the item is refused")
    outcome: str | None = Field(default=None, description="outcome word of the last attempt's end")
    run_id: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
