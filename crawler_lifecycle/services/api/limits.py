"""Limits a process's and a token's open live streams, and limits how often the API's readiness is checked.

Strangers may ask for readiness, which is checked at most once a second: their questions must not multiply the requests
to database and Temporal.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException

from crawler_lifecycle.errors import LifecycleError, TemporaryError
from crawler_lifecycle.services.problems import RETRY_AFTER_SECONDS

VALID_SECONDS = 1.0  # of a check for readiness


@dataclass
class StreamSlots:
    """Open streams, counted by token. Without a limit for one token, a single client could take every slot."""

    most: int
    most_of_one: int
    _open: Counter[str] = field(default_factory=Counter)

    @property
    def open(self) -> int:
        return self._open.total()

    def refuse_too_many(self, token: str) -> None:
        if self.open >= self.most:
            raise TemporaryError(f"{self.open} streams are open, which is all this process serves")
        if self._open[token] >= self.most_of_one:
            message = f"{self._open[token]} streams of the token {token} are open, which is all that one token may have"
            raise HTTPException(429, message, {"Retry-After": str(RETRY_AFTER_SECONDS)})

    @contextmanager
    def take(self, token: str) -> Iterator[None]:
        self.refuse_too_many(token)
        self._open[token] += 1
        try:
            yield
        finally:
            self._open -= Counter({token: 1})  # the subtraction drops tokens without a stream


class Readiness:
    """The result of the last check for readiness, which is valid for a moment."""

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
