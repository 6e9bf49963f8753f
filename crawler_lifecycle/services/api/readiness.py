"""Readiness of the API: the answers of its needs, requested at most once a second.

Strangers may ask for readiness, and must not multiply the requests to database and Temporal.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from crawler_lifecycle.errors import LifecycleError

HOLDS = 1.0  # seconds


class Readiness:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asking = asyncio.Lock()
        self._until = float("-inf")
        self._problem: LifecycleError | None = None

    async def ask(self, look: Callable[[], Awaitable[None]]) -> None:
        """Raise the problem, if there is any. Concurrent callers wait for the same answer."""
        async with self._asking:
            if self._clock() >= self._until:
                self._problem = await _problem_of(look)
                self._until = self._clock() + HOLDS
            if self._problem is not None:
                raise self._problem


async def _problem_of(look: Callable[[], Awaitable[None]]) -> LifecycleError | None:
    try:
        await look()
    except LifecycleError as error:
        return error
    return None
