"""Models of the API's request bodies and answers about crawl managers."""

from typing import Annotated

from pydantic import Field, JsonValue

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.base.names import Label
from crawler_lifecycle.flows.model.item_requests import MOST_IN_REQUEST, ItemsRequest
from crawler_lifecycle.flows.model.manager_records import ItemAttempt, ItemRecord, ManagerStatus, OutputLine


class AddItemsBody(ItemsRequest):
    key: Label = Field(description="chosen by the client: a second request with the same key adds nothing")
    items: Annotated[list[dict[str, JsonValue]], Field(min_length=1, max_length=MOST_IN_REQUEST)] = Field(
        description="parameters as a generator yields them: `spider`, `tags`, `job_settings`, `units`, and arguments",
        examples=[[{"spider": "shop", "shop": "shop-41", "tags": ["late"]}]],
    )


class ItemPage(Message):
    items: list[ItemRecord]
    next: int | None = Field(description="`after` of the next page; none: this is the last page")


class ItemAttempts(Message):
    attempts: list[ItemAttempt] = Field(description="the item's attempts over all generations, the first one first")


class OutputLines(Message):
    lines: list[OutputLine] = Field(description="the last lines, the oldest one first")


class ManagerList(Message):
    managers: list[ManagerStatus] = Field(description="the flow's crawl managers, with their numbers")
