"""Runs work beside a process's main task: a coroutine for a block, or a blocking loop until a signal."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Run the work during the block, then cancel the work and wait for its end. Errors of the work are not raised."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def loop_in_thread(loop: Callable[[threading.Event], None], stopped: asyncio.Event) -> None:
    """Run the loop in a thread until `stopped` is set, and wait for its end. Raises the error of a failed loop.

    The loop ends soon after the event that it gets is set.
    """
    loop_end = threading.Event()
    looping = asyncio.create_task(asyncio.to_thread(loop, loop_end))
    signal = asyncio.create_task(stopped.wait())
    await asyncio.wait((looping, signal), return_when=asyncio.FIRST_COMPLETED)
    loop_end.set()
    await looping
