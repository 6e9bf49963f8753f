"""`ItemFilter` chooses a crawl manager's items for lists."""

from typing import Annotated

from pydantic import Field

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.model.manager_items import ItemState

LARGEST_NUMBER = 1 << 31
Number = Annotated[int, Field(ge=1, lt=LARGEST_NUMBER)]


class ItemFilter(Message):
    """Choice by all given values. An empty value chooses every item."""

    manager: str | None = None  # path; None: the flow's only manager
    states: tuple[ItemState, ...] = ()
    outcome: str | None = None
    tag: str | None = None  # a tag or label in the item's last request
    numbers: tuple[Number, ...] | None = None


ALL_ITEMS = ItemFilter()
