"""Endpoint for events, called by `python -m workers.triggers` and by EventBridge's API destinations."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends, Response

from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.http.document import answer
from crawler_lifecycle.http.problems import problems
from crawler_lifecycle.http.state import OPERATING, ApiState, Caller, api_state
from crawler_lifecycle.triggers import commands, mapping_file
from crawler_lifecycle.triggers.model import Event, EventAnswer

CurrentApi = Annotated[ApiState[commands.HasRunsAndFlows], Depends(api_state)]
router = APIRouter(prefix="/v1", tags=["commanding"], dependencies=OPERATING)


@router.post(
    "/events",
    status_code=201,
    response_model=EventAnswer,
    responses=answer(200, "The event was answered before; nothing was started or stopped.", EventAnswer)
    | {201: {"description": "Started or stopped."}}
    | problems(_422="No rule of the mapping fits the event, or the request is refused. A repetition cannot succeed."),
)
async def post_event(api: CurrentApi, caller: Caller, body: Event, response: Response) -> EventAnswer:
    """Carry out the request in the mapping file for an event. The event's source and id are the key: a repeated event
    starts nothing. An answer with 5xx or 429 may be repeated.
    """
    path = api.control.context.installation.settings.triggers.mapping
    if path is None:
        raise NotReady("CRAWLER_TRIGGERS__MAPPING: expected the path of a mapping file for events")
    rules = await asyncio.to_thread(mapping_file.read, path)
    answer = await commands.apply(api.control, caller.name, rules, body)
    response.status_code = 201 if answer.created else 200
    return answer
