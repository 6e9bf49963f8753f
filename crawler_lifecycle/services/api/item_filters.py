"""Query parameters by which a caller chooses a crawl manager's items."""

from typing import Annotated

from fastapi import Depends, Query

from crawler_lifecycle.contract.flows.names import LONGEST_PATH
from crawler_lifecycle.contract.managers.item_filter import ItemFilter, Number
from crawler_lifecycle.contract.managers.items import ItemState

MOST_STATES, MOST_NUMBERS = len(ItemState), 500
Manager = Annotated[
    str | None, Query(max_length=LONGEST_PATH, description="path of the manager; default: the flow's only manager")
]


def _item_filter(
    manager: Manager = None,
    state: Annotated[
        list[ItemState], Query(max_length=MOST_STATES, description="only items in one of these states")
    ] = [],  # noqa: B006
    outcome: Annotated[str | None, Query(max_length=64, description="only items with this outcome")] = None,
    tag: Annotated[str | None, Query(max_length=128, description="only items with this tag or label")] = None,
    number: Annotated[
        list[Number], Query(max_length=MOST_NUMBERS, description="only items with one of these numbers")
    ] = [],  # noqa: B006
) -> ItemFilter:
    return ItemFilter(manager=manager, states=tuple(state), outcome=outcome, tag=tag, numbers=tuple(number) or None)


Chosen = Annotated[ItemFilter, Depends(_item_filter)]
