"""Threads for calls that block, so that the event loop stays free."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from crawler_lifecycle.errors import TemporaryError

P = ParamSpec("P")
T = TypeVar("T")


class Bulkhead:
    """Threads for one kind of blocking call. A crowd of these calls holds up no call in another bulkhead.

    `patience` is the time in seconds that a call waits for a free thread before the call is refused; without it, a
    call waits as long as its caller. `threads` is by default the number that asyncio takes for its own threads.
    """

    def __init__(self, name: str, threads: int | None = None, *, patience: float | None = None) -> None:
        self._name = name
        self._patience = patience
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of the call. TemporaryError if no thread becomes free in time."""
        queued = self._threads.submit(call, *args, **kwargs)
        result = asyncio.wrap_future(queued)
        try:
            done, _ = await asyncio.wait([result], timeout=self._patience)
            if not done and queued.cancel():  # a call that has begun cannot be cancelled
                raise TemporaryError(f"{self._name} is too slow for all present callers: try again later")
            return await result
        finally:
            queued.cancel()
