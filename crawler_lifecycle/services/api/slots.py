"""Limits the number of open live streams, for the process and for one token."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException

from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.services.problems import RETRY_AFTER_SECONDS


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
