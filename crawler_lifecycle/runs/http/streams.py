"""Endpoints for a task's log, as a single part or as a stream, and for the stream of all runs' changes."""

import re
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response, StreamingResponse

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.http.document import NO_TASK, stream_answer
from crawler_lifecycle.http.events import stream
from crawler_lifecycle.http.problems import Responses, problems
from crawler_lifecycle.http.state import READING, Caller, Run
from crawler_lifecycle.model.records import LogPart
from crawler_lifecycle.runs.http import changes, following
from crawler_lifecycle.runs.http.runs import CurrentApi, RunsApi

LARGEST_OFFSET = 1 << 50  # bytes: longer than any log, and valid as an offset in a file

LOG: Responses = {
    200: {
        "description": "A part as JSON; with `Accept: text/plain`, the text from the offset to the present end.",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
}
LOG_STREAM = stream_answer(
    'event: log\ndata: {"attempt":1,"text":"page 1 of 20\\n","offset":13,"ended":false}\nid: 1-13\n\n'
)
CHANGES = stream_answer(
    "event: ready\ndata: {}\nid: 1763629207250000\n\n"
    'event: notice\ndata: {"notice_id":"5d0b4a0e-6f55-5c4c-9d5e-0d2f1e3a7b11","kind":"started","run_id":42}\n'
    "id: 1763629207250000\n\n"
    'event: run\ndata: {"run_id":42,"status":"PROCESSING"}\nid: 1763629209000000\n\n'
)

router = APIRouter(prefix="/v1", tags=["following"], dependencies=READING)
TaskNumber = Annotated[int, Query(ge=0, le=10**9, description="number of the task")]
Offset = Annotated[
    int, Query(ge=-LARGEST_OFFSET, le=LARGEST_OFFSET, description="first byte to read; negative: counted from the end")
]
LastId = Annotated[
    str | None, Header(alias="Last-Event-ID", max_length=64, description="id of the last received event")
]


@router.get(
    "/runs/{run}/logs",
    response_model=LogPart,
    responses=LOG | problems(_404=NO_TASK),
)
async def get_log(
    api: CurrentApi, run: Run, request: Request, task: TaskNumber = 0, offset: Offset = 0
) -> LogPart | Response:
    """Return a part from the last attempt's log; with `Accept: text/plain`, return the text up to the present end."""
    part = await api.log_part_readers.run(following.log_part, api, run, task, None, offset)
    if not _wants_text(request.headers.get("accept", "")):
        return part
    headers = {"Cache-Control": "no-store", "Vary": "Accept", "X-Content-Type-Options": "nosniff"}
    return StreamingResponse(_text_after(api, run, task, part), media_type="text/plain", headers=headers)


def _wants_text(accept: str) -> bool:
    """Return whether the client names text/plain, and does not name JSON before."""
    types = [choice.partition(";")[0].strip().lower() for choice in accept.split(",")]
    return next((name == "text/plain" for name in types if name in ("text/plain", "application/json")), False)


async def _text_after(api: RunsApi, run: str, task: int, part: LogPart) -> AsyncIterator[str]:
    """Yield the text in the part and in the attempt's later parts, up to the present end."""
    attempt = part.attempt
    while part.text and part.attempt == attempt:
        yield part.text
        part = await api.log_part_readers.run(following.log_part, api, run, task, attempt, part.offset)


@router.get(
    "/runs/{run}/logs/stream",
    response_class=StreamingResponse,
    responses=LOG_STREAM | problems(_404=NO_TASK),
)
async def follow_log(
    api: CurrentApi, caller: Caller, run: Run, task: TaskNumber = 0, offset: Offset = 0, last_id: LastId = None
) -> StreamingResponse:
    """Stream the log of a task, attempt after attempt, until the task is over. Ids name the place to resume from."""
    api.streams.refuse_too_many(caller.name)  # before the log is read in vain
    follower = await following.begin(api, run, task, _read_log_id(last_id) if last_id else (None, offset))
    return stream(api, caller, follower.events())


@router.get(
    "/changes",
    response_class=StreamingResponse,
    responses=CHANGES
    | problems(
        _404="There is no such run.",
        _422="The Last-Event-ID is not an id of this stream, or a parameter is not acceptable.",
    ),
)
def follow_changes(
    api: CurrentApi,
    caller: Caller,
    run: Annotated[
        str | None, Query(max_length=64, description="only the run with this RunID (a number) or run_uid (a UUID)")
    ] = None,
    flows: Annotated[bool, Query(description="also runs of flows, which are left out as in lists of runs")] = False,
    last_id: LastId = None,
) -> StreamingResponse:
    """Stream every change of every run from now on, or from the event with the id on. An event carries the present
    state: several changes of a run may come as one event, and an unchanged state may come again; no change is left out.
    Notices (started, progress, stopped, finished) come before the state of their run. A repeated notice keeps its id.
    """
    last = _read_change_id(last_id)
    run_id = None if run is None else _known_run(api, run)
    return stream(api, caller, changes.follow(api, last, run_id, flows=flows))


def _known_run(api: RunsApi, run: str) -> int:
    """Return the RunID. NotFound without such a run: its stream would stay silent forever."""
    run_id = api.control.runs.run_id(run)
    records = api.control.context.store.records
    if not records.summaries([run_id]):
        records.overview(run_id)  # raises NotFound, or Removed
    return run_id


def _read_change_id(last_id: str | None) -> datetime | None:
    """Return the time of the event with the id; None: the client has received no event."""
    if last_id is None:
        return None
    try:
        return changes.moment_of(last_id)
    except (ValueError, OverflowError) as error:
        raise BadInput("Last-Event-ID", "expected the id of an event of this stream") from error


def _read_log_id(last_id: str) -> tuple[int, int]:
    """Return the attempt and the byte at which the client continues."""
    match = re.fullmatch(r"([0-9]{1,9})-([0-9]{1,15})", last_id)
    if not match:
        raise BadInput("Last-Event-ID", "expected the id of an event of this stream")
    return int(match[1]), int(match[2])
