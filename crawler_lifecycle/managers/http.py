"""Endpoints for crawl managers: starts by catalogue names, numbers, and the ledger of items."""

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Response
from pydantic import Field, JsonValue

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.base.names import LONGEST_PATH, Label
from crawler_lifecycle.flows.http.commands import by_caller, effect
from crawler_lifecycle.flows.http.flows import CurrentApi, Flow
from crawler_lifecycle.flows.model.definition import FlowDefinition
from crawler_lifecycle.flows.model.manager_records import ItemAttempt, ItemRecord, ManagerStatus, OutputLine
from crawler_lifecycle.flows.model.records import FlowAnswer, Why
from crawler_lifecycle.flows.model.requests import (
    MOST_IN_REQUEST,
    AddItems,
    CancelItems,
    ItemFilter,
    ItemsRequest,
    Number,
    RetryItems,
    StartManager,
)
from crawler_lifecycle.http import document
from crawler_lifecycle.http.problems import problems
from crawler_lifecycle.http.state import OPERATING, READING, Caller
from crawler_lifecycle.managers.authors.preview import added_items
from crawler_lifecycle.model.manager_items import ItemState

MOST_STATES, MOST_NUMBERS = len(ItemState), 500
Manager = Annotated[
    str | None, Query(max_length=LONGEST_PATH, description="path of the manager; default: the flow's only manager")
]
router = APIRouter(prefix="/v1/flows", tags=["flows"])
ALL_FAILED, ALL_WAITING = RetryItems(), CancelItems()


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


async def _item_filter(
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


@router.post(
    "/managers",
    status_code=201,
    dependencies=OPERATING,
    response_model=FlowAnswer,
    responses=document.answer(201, "The manager is stored.")
    | document.answer(200, "The manager was started before under this flow id.", FlowAnswer)
    | problems(
        _409="The family has this manager with another class or other arguments.",
        _422=document.NOT_ACCEPTABLE + " The catalogue may have no such manager. Nothing was written.",
    ),
)
async def start_manager(
    api: CurrentApi,
    caller: Caller,
    body: StartManager,
    response: Response,
) -> FlowAnswer:
    """Start a crawl manager of the catalogue, once in its family. The answer has the flow's id, `family/manager`.

    A host with the manager's module runs the manager; the host also checks the arguments.
    """
    answer = await api.control.flows.start_manager(by_caller(body, caller))
    response.status_code = 201 if answer.created else 200
    response.headers["Location"] = f"/v1/flows/{quote(answer.flow_id)}"
    return answer


@router.post(
    "/managers/definition",
    dependencies=OPERATING,
    responses=problems(_422=document.NOT_ACCEPTABLE + " The catalogue may have no such manager."),
)
async def preview_manager(api: CurrentApi, body: StartManager) -> FlowDefinition:
    """Return the catalogue manager's flow as a start would store the flow. Nothing is written."""
    return await api.control.flows.definition_of_manager(body.manager, body.family, tuple(body.arguments))


@router.get(
    "/{flow:path}/managers",
    dependencies=READING,
    responses=problems(_404=document.NO_FLOW),
)
def list_managers(api: CurrentApi, flow: Flow) -> ManagerList:
    """Return the flow's crawl managers with the numbers of their items, their sums, and their problems."""
    return ManagerList(managers=list(api.control.flows.managers(flow)))


@router.get(
    "/{flow:path}/items",
    dependencies=READING,
    responses=problems(_404=document.NO_FLOW),
)
def list_items(
    api: CurrentApi,
    flow: Flow,
    chosen: Chosen,
    after: Annotated[int, Query(ge=0, le=1 << 31, description="only items after this number")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="largest number in the answer")] = 100,
) -> ItemPage:
    """Return the items of a crawl manager by number, each with its last attempt. A page may be short, even empty, and
    have a next page: the API reads at most 800 items for an answer.
    """
    page = api.control.flows.search_items(flow, chosen, after=after, limit=limit)
    return ItemPage(items=page.items, next=page.rest)


@router.get(
    "/{flow:path}/why-item",
    dependencies=READING,
    responses=problems(_404=document.NO_FLOW_OR_ITEM),
)
def explain_item(
    api: CurrentApi,
    flow: Flow,
    item: Annotated[Number, Query(description="number of the item")],
    manager: Manager = None,
) -> Why:
    """Return why an item of a crawl manager is in its state, down to its run."""
    return api.control.flows.why_item(flow, item, manager)


@router.get(
    "/{flow:path}/item-attempts",
    dependencies=READING,
    responses=problems(_404=document.NO_FLOW_OR_ITEM),
)
def list_item_attempts(
    api: CurrentApi,
    flow: Flow,
    item: Annotated[Number, Query(description="number of the item")],
    manager: Manager = None,
) -> ItemAttempts:
    """Return the attempts of a crawl manager's item, with the arguments that have changed from one to the next."""
    return ItemAttempts(attempts=list(api.control.flows.item_attempts(flow, item, manager)))


@router.get(
    "/{flow:path}/manager-log",
    dependencies=READING,
    responses=problems(_404=document.NO_FLOW),
)
def get_manager_log(api: CurrentApi, flow: Flow, manager: Manager = None) -> OutputLines:
    """Return the last lines that a crawl manager's object has printed or logged: at most 200 lines."""
    return OutputLines(lines=list(api.control.flows.output(flow, manager)))


@router.post("/{flow:path}/items", status_code=202, dependencies=OPERATING, responses=effect("The manager has ended."))
async def add_items(api: CurrentApi, caller: Caller, flow: Flow, body: AddItemsBody) -> FlowAnswer:
    """Add items to an open crawl manager, once for the key."""
    added = tuple(added_items(body.items, None))
    request = AddItems(key=body.key, items=added, manager=body.manager, actor=body.actor)
    return await api.control.flows.add_items(flow, by_caller(request, caller))


@router.post(
    "/{flow:path}/retry-items",
    status_code=202,
    dependencies=OPERATING,
    responses=effect("The flow does not allow the retry.", document.NO_FLOW_OR_ITEM),
)
async def retry_items(
    api: CurrentApi,
    caller: Caller,
    flow: Flow,
    body: RetryItems = ALL_FAILED,
) -> FlowAnswer:
    """Give items another attempt, by default all failed items. A manager that has ended continues. A refused item needs
    another crawler or other arguments.
    """
    return await api.control.flows.retry_items(flow, by_caller(body, caller))


@router.post(
    "/{flow:path}/cancel-items",
    status_code=202,
    dependencies=OPERATING,
    responses=effect("The flow does not allow the cancel.", document.NO_FLOW_OR_ITEM),
)
async def cancel_items(
    api: CurrentApi,
    caller: Caller,
    flow: Flow,
    body: CancelItems = ALL_WAITING,
) -> FlowAnswer:
    """Cancel items that wait, by default all of them, and dismiss refused items by their numbers. Crawls under way go
    on.
    """
    return await api.control.flows.cancel_items(flow, by_caller(body, caller))
