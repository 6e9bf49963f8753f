"""Readiness of the API, checked at most once a second.

Strangers may ask for readiness, and must not multiply the requests to database and Temporal.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from crawler_lifecycle.errors import LifecycleError

VALID_SECONDS = 1.0


class Readiness:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._checking = asyncio.Lock()
        self._valid_until = float("-inf")
        self._problem: LifecycleError | None = None

    async def require(self, check: Callable[[], Awaitable[None]]) -> None:
        """Raise the problem of the last check, if any. Concurrent callers wait for the same check."""
        async with self._checking:
            if self._clock() >= self._valid_until:
                self._problem = await _problem_of(check)
                self._valid_until = self._clock() + VALID_SECONDS
            if self._problem is not None:
                raise self._problem


async def _problem_of(check: Callable[[], Awaitable[None]]) -> LifecycleError | None:
    try:
        await check()
    except LifecycleError as error:
        return error
    return None
