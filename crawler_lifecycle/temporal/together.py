"""Requests to Temporal side by side."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

REQUESTS_AT_ONCE = 16  # so that an audit or a large flow does not slow Temporal down for the runs
Item = TypeVar("Item")
Answer = TypeVar("Answer")


async def gather_limited(request: Callable[[Item], Awaitable[Answer]], items: Iterable[Item]) -> list[Answer]:
    """Call `request` for every item, a few at a time, and return the answers in the items' order.

    The first error cancels the other requests and is raised.
    """
    slots = asyncio.Semaphore(REQUESTS_AT_ONCE)

    async def request_in_slot(item: Item) -> Answer:
        async with slots:
            return await request(item)

    tasks = [asyncio.create_task(request_in_slot(item)) for item in items]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
