"""Server-sent events as bytes, and the pauses between the events.

A quiet stream sends comments, so that a client can tell a quiet stream from a dead stream.
"""

import asyncio
from datetime import timedelta

from pydantic import BaseModel

from crawler_lifecycle.services.api.state import ApiState

PAUSE = timedelta(seconds=0.5)
PAUSES_PER_COMMENT = 4  # silent pauses before a comment: for the page, 4.5 s of silence mean that the API is away
COMMENT = b": still here\n\n"


def event(kind: str, data: BaseModel | None = None, event_id: str | None = None) -> bytes:
    lines = [f"event: {kind}", f"data: {data.model_dump_json() if data else '{}'}"]
    if event_id is not None:
        lines.append(f"id: {event_id}")
    return ("\n".join(lines) + "\n\n").encode()


async def closes_within(api: ApiState, seconds: float = PAUSE.total_seconds()) -> bool:
    """Wait for so many seconds, or until the process is about to end. Return whether the process is about to end."""
    try:
        async with asyncio.timeout(seconds):
            return await api.closing.wait()
    except TimeoutError:
        return False
