"""Runs blocking calls in threads. Every kind has its own threads, so a slow database holds up no other kind."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from crawler_lifecycle.errors import TemporaryError

P = ParamSpec("P")
T = TypeVar("T")


class Bulkhead:
    """Threads for a kind of blocking call. `name` says in a refusal's message what is too slow.

    A call waits `patience` seconds for a free thread and is then refused; without `patience`, a call waits until its
    caller is cancelled. Without `threads`, the number of threads is Python's default for a thread pool.
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
            if not done and queued.cancel():  # `cancel` is false for a call that has a thread: such a call is awaited
                raise TemporaryError(f"{self._name} is too slow for all present callers: try again later")
            return await result
        finally:
            queued.cancel()  # after a cancellation of the caller, the queued call must not take a thread later
