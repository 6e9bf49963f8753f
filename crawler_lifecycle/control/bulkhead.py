"""Runs blocking calls in threads, so that the event loop stays free and kinds of calls do not hold up one another."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from crawler_lifecycle.errors import TemporaryError

P = ParamSpec("P")
T = TypeVar("T")


class Bulkhead:
    """Threads for a kind of blocking call. Many calls in a bulkhead hold up no call in another bulkhead.

    A call waits `patience` seconds for a free thread and is then refused; without `patience`, a call waits as long as
    its caller. The default of `threads` is the number that asyncio takes for its own threads.
    """

    def __init__(self, name: str, threads: int | None = None, *, patience: float | None = None) -> None:
        self._name = name
        self._patience = patience
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the call's result. TemporaryError if no thread becomes free in time."""
        queued = self._threads.submit(call, *args, **kwargs)
        result = asyncio.wrap_future(queued)
        try:
            done, _ = await asyncio.wait([result], timeout=self._patience)
            if not done and queued.cancel():  # False if the call has begun: the call is awaited then
                raise TemporaryError(f"{self._name} is too slow for all present callers: try again later")
            return await result
        finally:
            queued.cancel()  # the caller may be gone: its call must not take a thread later
