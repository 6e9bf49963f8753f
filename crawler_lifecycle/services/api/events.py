"""How does a stream look on the wire? Server-sent events, and a comment now and then, so that silence is not death."""

import asyncio
from datetime import timedelta

from pydantic import BaseModel

from crawler_lifecycle.services.api.desk import Desk

PAUSE = timedelta(seconds=0.5)
BEATS = 4  # pauses between two comments: a page takes an API that is silent for longer than 4.5 s for away
COMMENT = b": still here\n\n"


def event(kind: str, data: BaseModel | None = None, place: str | None = None) -> bytes:
    lines = [f"event: {kind}", f"data: {data.model_dump_json() if data else '{}'}"]
    if place is not None:
        lines.append(f"id: {place}")
    return ("\n".join(lines) + "\n\n").encode()


async def closing(desk: Desk, seconds: float = PAUSE.total_seconds()) -> bool:
    """Waits a moment; whether the process is about to end."""
    try:
        async with asyncio.timeout(seconds):
            return await desk.closing.wait()
    except TimeoutError:
        return False
