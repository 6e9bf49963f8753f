"""Limits the number of open live streams, by process and by token, and the number of checks for readiness.

Strangers may ask for readiness. A check takes requests to database and Temporal, so a result is kept for a second.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException

from crawler_lifecycle.errors import LifecycleError, TemporaryError
from crawler_lifecycle.http.problems import RETRY_AFTER_SECONDS

VALID_SECONDS = 1.0  # all callers within this time share a result of the readiness check


@dataclass
class StreamSlots:
    """Open streams, counted by token. Without a limit for one token, a single client could take every slot."""

    limit: int
    limit_per_token: int
    _open: Counter[str] = field(default_factory=Counter)  # by name of the token

    @property
    def open_count(self) -> int:
        return self._open.total()

    def refuse_too_many(self, token: str) -> None:
        """Raise TemporaryError if the process has no free slot, and HTTPException if the token has no free slot."""
        if self.open_count >= self.limit:
            raise TemporaryError(f"{self.open_count} streams are open, which is all this process serves")
        if self._open[token] >= self.limit_per_token:
            message = f"{self._open[token]} streams of the token {token} are open, which is all that one token may have"
            raise HTTPException(429, message, {"Retry-After": str(RETRY_AFTER_SECONDS)})

    @contextmanager
    def take(self, token: str) -> Iterator[None]:
        """Take a slot during the block, or raise an error like `refuse_too_many`."""
        self.refuse_too_many(token)
        self._open[token] += 1
        try:
            yield
        finally:
            self._open -= Counter({token: 1})  # the subtraction drops tokens without a stream


class Readiness:
    """Last check for readiness, valid for a moment."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = asyncio.Lock()  # concurrent callers wait for the same check
        self._valid_until = float("-inf")
        self._problem: LifecycleError | None = None

    async def require(self, check: Callable[[], Awaitable[None]]) -> None:
        """Check if the last result is not valid any more, and raise the problem of the last check, if any."""
        async with self._lock:
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
