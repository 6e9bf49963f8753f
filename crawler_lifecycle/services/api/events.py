"""Server-sent events on the wire, with regular comments, so that a client can tell a quiet stream from a dead one."""

import asyncio
from datetime import timedelta

from pydantic import BaseModel

from crawler_lifecycle.services.api.desk import Desk

PAUSE = timedelta(seconds=0.5)
BEATS = 4  # pauses between two comments: for the page, 4.5 s of silence mean that the API is away
COMMENT = b": still here\n\n"


def event(kind: str, data: BaseModel | None = None, place: str | None = None) -> bytes:
    lines = [f"event: {kind}", f"data: {data.model_dump_json() if data else '{}'}"]
    if place is not None:
        lines.append(f"id: {place}")
    return ("\n".join(lines) + "\n\n").encode()


async def closing(desk: Desk, seconds: float = PAUSE.total_seconds()) -> bool:
    """Wait for the pause, and return whether the process is about to end."""
    try:
        async with asyncio.timeout(seconds):
            return await desk.closing.wait()
    except TimeoutError:
        return False
