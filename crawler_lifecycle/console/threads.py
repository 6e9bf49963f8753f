"""Runs blocking calls for async code in threads. After Ctrl-C, no call holds up the end of the process.

`asyncio.to_thread` does not fit: at its end, `asyncio.run` waits for the threads, and so for a slow API.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


async def call(function: Callable[[], T]) -> T:
    """Return the function's result from a thread of its own."""
    result: Future[T] = Future()
    result.set_running_or_notify_cancel()  # a cancelled caller must not cancel it: the thread still sets its result

    def work() -> None:
        try:
            result.set_result(function())
        except BaseException as error:  # noqa: BLE001 (raised in the caller)
            result.set_exception(error)

    threading.Thread(target=work, name="api", daemon=True).start()
    return await asyncio.wrap_future(result)


async def iterate(iterator: Iterator[T]) -> AsyncIterator[T]:
    """Yield the iterator's items. Every item is computed in a thread."""
    end = object()
    while (item := await call(lambda: next(iterator, end))) is not end:
        yield item  # type: ignore[misc]
