"""Streams of server-sent events: the events as bytes, the pauses between events, and the streaming response.

A quiet stream sends comments, so that a client can distinguish a quiet stream from a dead stream.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta

from pydantic import BaseModel
from starlette.responses import StreamingResponse
from starlette.types import Receive, Send
from starlette.types import Scope as Connection

from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.http.state import AnyApi
from crawler_lifecycle.http.tokens import Scope, Token

PAUSE = timedelta(seconds=0.5)  # between two reads for a stream
# pauses without an event before a comment: the page takes 4.5 s of silence for an outage
PAUSES_PER_COMMENT = 4
TOKEN_CHECK_PAUSE = 2.0  # seconds between two checks of an open stream's token
COMMENT = b": still here\n\n"


def event(kind: str, data: BaseModel | None = None, event_id: str | None = None) -> bytes:
    """Return the bytes of an event. Without data the event carries `{}`; without an id the client keeps the last id."""
    lines = [f"event: {kind}", f"data: {data.model_dump_json() if data else '{}'}"]
    if event_id is not None:
        lines.append(f"id: {event_id}")
    return ("\n".join(lines) + "\n\n").encode()


async def wait_for_closing(api: AnyApi, seconds: float = PAUSE.total_seconds()) -> bool:
    """Wait until the process shuts down, at most for the seconds. Return whether the process shuts down."""
    try:
        async with asyncio.timeout(seconds):
            return await api.closing.wait()
    except TimeoutError:
        return False


def stream(api: AnyApi, caller: Token, events: AsyncIterator[bytes]) -> StreamingResponse:
    """Return the events as a stream. The stream ends when the caller's token is revoked."""
    return Stream(api, caller, _until_revoked(api, caller, events))


class Stream(StreamingResponse):
    """Stream that takes a slot when the sending begins, and ends soon after its token is revoked.

    Endpoints only check for a free slot, and concurrent requests could pass the check for the same slot.
    `_until_revoked` ends the stream of a client that reads. `_abort_after_revocation` cuts the connection of a client
    that does not read, with the function `abort` from `connection.py`.
    """

    def __init__(self, api: AnyApi, caller: Token, events: AsyncIterator[bytes]) -> None:
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


async def _until_revoked(api: AnyApi, caller: Token, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the events, and end the stream at the first event or comment after the token was revoked."""
    async for message in events:
        if not _is_still_valid(api, caller):
            return
        yield message


def _is_still_valid(api: AnyApi, caller: Token) -> bool:
    """Return whether the token is still valid. An unreadable file of tokens ends the stream, too."""
    try:
        return api.tokens.is_valid(caller, Scope.READ)
    except NotReady:  # the next request of the client gets the problem
        return False
