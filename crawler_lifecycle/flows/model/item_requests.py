"""Requests for crawl managers and their items, at every door. `manager`: the member's path, for a flow with several."""

from typing import Annotated

from pydantic import Field, JsonValue

from crawler_lifecycle.base.limits import LONGEST_NAME
from crawler_lifecycle.base.names import Label, Path
from crawler_lifecycle.flows.model.requests import FlowRequest
from crawler_lifecycle.model.manager_items import Item

LONGEST_ARGUMENT = 65_536
MOST_IN_REQUEST = 10_000
Numbers = Annotated[
    tuple[Annotated[int, Field(ge=1, le=1 << 31)], ...], Field(max_length=MOST_IN_REQUEST, strict=False)
]


class StartManager(FlowRequest):
    """Start a crawl manager by its catalogue name. The request has no paths and no classes."""

    manager: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)] = Field(
        description="name in the catalogue", examples=["shops"]
    )
    family: Label | None = Field(
        default=None,
        description="family of the manager's flow, whose id is `family/manager`: a second start in the family joins "
        "the first; default: a new family, and then a repeated request starts a second manager",
        examples=["november"],
    )
    arguments: Annotated[
        tuple[Annotated[str, Field(max_length=LONGEST_ARGUMENT)], ...], Field(max_length=1000, strict=False)
    ] = Field(
        default=(),
        description="command line after the catalogue's arguments",
        examples=[["--max-running-jobs", "8"]],
    )


class ItemsRequest(FlowRequest):
    """Fields in all requests."""

    manager: Path | None = Field(default=None, description="path of the manager; default: the flow's only manager")


class AddItems(ItemsRequest):
    """Add items to an open manager. A second request with the same key is ignored."""

    key: Label
    items: Annotated[tuple[Item, ...], Field(min_length=1, max_length=MOST_IN_REQUEST)]


class RetryItems(ItemsRequest):
    """Give failed, cancelled and refused items another attempt. An ended manager continues."""

    numbers: Numbers | None = Field(default=None, description="default: all failed items", examples=[[17, 30]])
    arguments: dict[str, JsonValue] | None = Field(
        default=None, description="arguments in place of the previous arguments"
    )
    spider: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)] | None = Field(
        default=None, description="crawler in place of the previous crawler"
    )

    @property
    def has_corrections(self) -> bool:
        return bool(self.arguments) or self.spider is not None


class CancelItems(ItemsRequest):
    """Cancel waiting items, and items cancelled by the manager's close. Crawls under way continue."""

    numbers: Numbers | None = Field(
        default=None,
        description="default: all items that wait; a refused item is cancelled only by its number",
        examples=[[17, 30]],
    )
