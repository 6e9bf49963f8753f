"""Endpoints for a task's log, as a single part or as a stream, and for the stream of all runs' changes."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Header, Query
from starlette.responses import StreamingResponse
from starlette.types import Receive, Send
from starlette.types import Scope as Connection

from crawler_lifecycle.errors import BadInput, NotReady
from crawler_lifecycle.services.api import changes, following
from crawler_lifecycle.services.api.document import CHANGES, LOG, LOG_STREAM, NOT_ACCEPTABLE
from crawler_lifecycle.services.api.messages import LogPart
from crawler_lifecycle.services.api.state import READING, ApiState, Caller, CurrentApi, Run
from crawler_lifecycle.services.api.tokens import Scope, Token
from crawler_lifecycle.services.problems import problems

LARGEST_OFFSET = 1 << 50  # bytes: longer than any log, and valid as an offset in a file
TOKEN_CHECK_PAUSE = 2.0  # seconds between two checks of an open stream's token

router = APIRouter(prefix="/v1", tags=["following"], dependencies=READING)
TaskNumber = Annotated[int, Query(ge=0, le=10**9, description="number of the task")]
Offset = Annotated[
    int, Query(ge=-LARGEST_OFFSET, le=LARGEST_OFFSET, description="first byte to read; negative: counted from the end")
]
LastId = Annotated[
    str | None, Header(alias="Last-Event-ID", max_length=64, description="id of the last received event")
]


@router.get("/runs/{run}/logs", responses=LOG | problems(_404="No such run or task.", _422=NOT_ACCEPTABLE))
async def log(api: CurrentApi, run: Run, task: TaskNumber = 0, offset: Offset = 0) -> LogPart:
    """Return the log of the task's last attempt."""
    return await api.log_part_readers.run(following.log_part, api, run, task, None, offset)


@router.get(
    "/runs/{run}/logs/stream",
    response_class=StreamingResponse,
    responses=LOG_STREAM | problems(_404="No such run or task.", _422=NOT_ACCEPTABLE),
)
async def follow(
    api: CurrentApi, caller: Caller, run: Run, task: TaskNumber = 0, offset: Offset = 0, last_id: LastId = None
) -> StreamingResponse:
    """Stream the log of a task, attempt after attempt, until the task is over. Ids tell the place to resume from."""
    api.streams.refuse_too_many(caller.name)  # before the log is read in vain
    follower = await following.begin(api, run, task, _read_log_id(last_id) if last_id else (None, offset))
    return stream(api, caller, follower.events())


@router.get(
    "/changes",
    response_class=StreamingResponse,
    responses=CHANGES | problems(_422="The Last-Event-ID is not an id of this stream."),
)
def follow_changes(
    api: CurrentApi,
    caller: Caller,
    run: Annotated[int | None, Query(ge=1, le=1 << 53, description="only the run with this RunID")] = None,
    flows: Annotated[bool, Query(description="also runs of flows, which are left out as in lists of runs")] = False,
    last_id: LastId = None,
) -> StreamingResponse:
    """Stream every change of every run from now on, or from the event with the id on. An event carries the present
    state: several changes of a run may come as one event, and an unchanged state may come again; no change is left out.
    Notices (started, progress, stopped, finished) come before the state of their run. A repeated notice keeps its id.
    """
    return stream(api, caller, changes.follow(api, _read_change_id(last_id), run, flows=flows))


def stream(api: ApiState, caller: Token, events: AsyncIterator[bytes]) -> StreamingResponse:
    """Return the events as a stream, which ends when the caller's token is revoked."""
    return Stream(api, caller, _until_revoked(api, caller, events))


class Stream(StreamingResponse):
    """Stream that takes a slot when the sending begins, and ends soon after its token is revoked.

    Endpoints only check for a free slot, and concurrent requests could pass the check for the same slot.
    `_until_revoked` ends the stream of a client that reads. `_abort_after_revocation` cuts the connection of a client
    that does not read, with the function `abort` from `connection.py`.
    """

    def __init__(self, api: ApiState, caller: Token, events: AsyncIterator[bytes]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._api = api
        self._caller = caller

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        with self._api.streams.take(self._caller.name):
            # `TimeLimitedProtocol` has put the connection's `abort` into the state
            revocation_watch = asyncio.create_task(self._abort_after_revocation(scope["state"]["abort"]))
            try:
                await super().__call__(scope, receive, send)
            finally:
                revocation_watch.cancel()

    async def _abort_after_revocation(self, abort: Callable[[], None]) -> None:
        """Abort the connection when the token was revoked. A send that waits for the client would outlive the token."""
        while _is_still_valid(self._api, self._caller):
            await asyncio.sleep(TOKEN_CHECK_PAUSE)
        await asyncio.sleep(TOKEN_CHECK_PAUSE)  # meanwhile `_until_revoked` ends a stream whose client reads
        abort()


async def _until_revoked(api: ApiState, caller: Token, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the events, and end the stream at the first event or comment after the token was revoked."""
    async for event in events:
        if not _is_still_valid(api, caller):
            return
        yield event


def _is_still_valid(api: ApiState, caller: Token) -> bool:
    """Return whether the token is still valid. An unreadable file of tokens ends the stream, too."""
    try:
        return api.tokens.is_valid(caller, Scope.READ)
    except NotReady:  # the next request of the client gets the problem
        return False


def _read_change_id(last_id: str | None) -> datetime | None:
    """Return the time of the event with the id; None: the client has received no event."""
    if last_id is None:
        return None
    try:
        return changes.moment_of(last_id)
    except (ValueError, OverflowError) as error:
        raise BadInput("Last-Event-ID", "expected the id of an event of this stream") from error


def _read_log_id(last_id: str) -> tuple[int, int]:
    """Return the attempt and the byte at which the client goes on."""
    match = re.fullmatch(r"([0-9]{1,9})-([0-9]{1,15})", last_id)
    if not match:
        raise BadInput("Last-Event-ID", "expected the id of an event of this stream")
    return int(match[1]), int(match[2])
