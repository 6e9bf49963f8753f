"""Requests for the items of crawl managers, at every door. `manager`: the member's path, for a flow with several."""

from typing import Annotated

from pydantic import Field, JsonValue

from crawler_lifecycle.contract.flows.names import Label, Path
from crawler_lifecycle.contract.flows.requests import FlowRequest
from crawler_lifecycle.contract.managers.items import Item

MOST_IN_REQUEST = 10_000
Numbers = Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(max_length=MOST_IN_REQUEST)]


class ItemsRequest(FlowRequest):
    """Fields in all requests."""

    manager: Path | None = Field(default=None, description="default: the flow's only manager")


class AddItems(ItemsRequest):
    """Add items to an open manager. A second request with the same key is ignored."""

    key: Label
    items: Annotated[tuple[Item, ...], Field(min_length=1, max_length=MOST_IN_REQUEST)]


class RetryItems(ItemsRequest):
    """Give failed, cancelled and refused items another attempt. An ended manager goes on."""

    numbers: Numbers | None = Field(default=None, description="default: all failed items")
    arguments: dict[str, JsonValue] | None = Field(default=None, description="arguments over the former arguments")


class CancelItems(ItemsRequest):
    """Cancel waiting items. Crawls under way go on."""

    numbers: Numbers | None = Field(default=None, description="default: all items that wait")
