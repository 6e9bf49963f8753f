"""Server-sent events as bytes, and the pauses between the events.

A quiet stream sends comments, so that a client can distinguish a quiet stream from a dead stream.
"""

import asyncio
from datetime import timedelta

from pydantic import BaseModel

from crawler_lifecycle.services.api.state import ApiState

PAUSE = timedelta(seconds=0.5)  # between two reads for a stream
# pauses without an event before a comment: the page takes 4.5 s of silence for an outage
PAUSES_PER_COMMENT = 4
COMMENT = b": still here\n\n"


def event(kind: str, data: BaseModel | None = None, event_id: str | None = None) -> bytes:
    """Return the bytes of an event. Without data the event carries `{}`; without an id the client keeps the last id."""
    lines = [f"event: {kind}", f"data: {data.model_dump_json() if data else '{}'}"]
    if event_id is not None:
        lines.append(f"id: {event_id}")
    return ("\n".join(lines) + "\n\n").encode()


async def wait_for_closing(api: ApiState, seconds: float = PAUSE.total_seconds()) -> bool:
    """Wait until the process shuts down, at most for the seconds. Return whether the process shuts down."""
    try:
        async with asyncio.timeout(seconds):
            return await api.closing.wait()
    except TimeoutError:
        return False
