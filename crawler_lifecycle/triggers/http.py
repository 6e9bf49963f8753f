"""Endpoint for events, called by `python -m workers.triggers` and by EventBridge's API destinations."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Body, Response

from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.services.api.document import example
from crawler_lifecycle.services.api.state import OPERATING, Caller, CurrentApi
from crawler_lifecycle.services.problems import problems
from crawler_lifecycle.triggers import commands, mapping_file
from crawler_lifecycle.triggers.model import Event, EventAnswer

UID = "5b0c9c6e-6f0e-4f57-9a51-0d4c2f6f3a11"
EVENT = Body(
    openapi_examples={
        "event": {
            "summary": "An event as EventBridge delivers it",
            "value": {
                "version": "0",
                "id": "6a7e8feb-b491-4cf7-a9f1-bf3703467718",
                "source": "shop.orders",
                "detail-type": "Order Placed",
                "time": "2026-11-20T09:00:00Z",
                "detail": {"order": "4711", "site": "books.example"},
            },
        }
    }
)
ANSWER = {"act": "start_run", "rule": "new-order", "created": True, "run_id": 42, "run_uid": UID, "flow_id": None}
ANSWERS = example(ANSWER, 200, "The event was answered before; nothing was started or stopped.") | {
    201: {"description": "Started or stopped.", "content": {"application/json": {"example": ANSWER}}}
}

router = APIRouter(prefix="/v1", tags=["commanding"], dependencies=OPERATING)


@router.post(
    "/events",
    status_code=201,
    response_model=EventAnswer,
    responses=ANSWERS
    | problems(_422="No rule of the mapping fits the event, or the request is refused. A repetition cannot succeed."),
)
async def post_event(api: CurrentApi, caller: Caller, body: Annotated[Event, EVENT], response: Response) -> EventAnswer:
    """Carry out the request in the mapping file for an event. The event's source and id are the key: a repeated event
    starts nothing. An answer with 5xx or 429 may be repeated.
    """
    path = api.control.installation.settings.triggers.mapping
    if path is None:
        raise NotReady("CRAWLER_TRIGGERS__MAPPING: expected the path of a mapping file for events")
    rules = await asyncio.to_thread(mapping_file.read, path)
    answer = await commands.apply(api.control, caller.name, rules, body)
    response.status_code = 201 if answer.created else 200
    return answer
